-- GPU work that ops launched whose FLOP or bytes are known: which op, and what part of its work.
--
-- Each GPU event belongs to the outermost op with a row in `op_work` around its launch, if there is one. An op of
-- matrix products gives what it computes and moves to its kernels of products, by their durations, or to its longest
-- kernel if none is known to be one; what sets layouts or memory beside them has none. Other ops give it to all that
-- they launched, by duration. Sums over the events of an op are exactly what the op has.
--
-- :reads op_work, launch, nesting, event, name_info
-- :only_with launch
-- :column event_id BIGINT      the GPU event
-- :column work_id BIGINT       the op that it belongs to, a row of `op_work`
-- :column time_ns BIGINT       the part of its duration in which no earlier work of the same op runs
-- :column matrix_flop BIGINT   its share of the op's; NULL when the op's is unknown; likewise what follows
-- :column model_flop BIGINT    its share
-- :column dense_flop BIGINT    its share
-- :column vector_flop BIGINT   its share
-- :column bytes BIGINT         its share
-- :column evidence VARCHAR     whole, if the op launched nothing else; shared, if it did
with outer_work as (
    select
        op_work.*,
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns
    from op_work
    inner join nesting on op_work.event_id = nesting.event_id
    where op_work.is_outermost and nesting.end_ns > nesting.start_ns
),

launched as (
    select
        launch.event_id,
        nesting.track_id,
        nesting.start_ns as at_ns
    from launch
    inner join nesting on coalesce(launch.runtime_id, launch.op_id) = nesting.event_id
),

claimed as (
    select
        launched.event_id,
        outer_work.event_id as work_id,
        outer_work.matrix_flop,
        outer_work.model_flop,
        outer_work.dense_flop,
        outer_work.vector_flop,
        outer_work.bytes,
        timed.start_ns,
        timed.end_ns,
        timed.dur_ns,
        coalesce(outer_work.matrix_flop > 0, false) and name_info.unit is not null as is_product
    from launched
    asof inner join outer_work on launched.track_id = outer_work.track_id and launched.at_ns >= outer_work.start_ns
    inner join event as timed on launched.event_id = timed.event_id
    left join name_info on timed.category = name_info.category and timed.name = name_info.name
    where launched.at_ns < outer_work.end_ns
),

-- Each event with what decides its share: products by name, else the longest.
weighed as (
    select
        *,
        greatest(0, end_ns - greatest(start_ns, coalesce(max(end_ns) over earlier, start_ns))) as time_ns,
        count(*) over of_work as event_count,
        -- A nanosecond at least, so that the weights of an op are never 0 together.
        case
            when bool_or(is_product) over of_work then if(is_product, greatest(dur_ns, 1), 0)
            when coalesce(matrix_flop, 0) = 0 then greatest(dur_ns, 1)
            when row_number() over (partition by work_id order by dur_ns desc, event_id) = 1 then 1
            else 0
        end as weight
    from claimed
    window
        of_work as (partition by work_id),
        earlier as (partition by work_id order by start_ns, event_id rows between unbounded preceding and 1 preceding)
),

-- The part of the op's work that is done before each event, and after it, from 0 to 1: of the last one exactly 1.
summed as (
    select
        *,
        (sum(weight) over so_far - weight) / sum(weight) over of_work as begun,
        sum(weight) over so_far / sum(weight) over of_work as reached
    from weighed
    window
        of_work as (partition by work_id),
        so_far as (partition by work_id order by start_ns, event_id rows unbounded preceding)
)

select
    event_id,
    work_id,
    time_ns,
    floor(matrix_flop * reached)::bigint - floor(matrix_flop * begun)::bigint as matrix_flop,
    floor(model_flop * reached)::bigint - floor(model_flop * begun)::bigint as model_flop,
    floor(dense_flop * reached)::bigint - floor(dense_flop * begun)::bigint as dense_flop,
    floor(vector_flop * reached)::bigint - floor(vector_flop * begun)::bigint as vector_flop,
    floor(bytes * reached)::bigint - floor(bytes * begun)::bigint as bytes,
    if(event_count = 1, 'whole', 'shared') as evidence
from summed
