-- GPU work of ops with known FLOP or bytes: the owning op, and the share of the op's work.
--
-- Each GPU event belongs to the outermost op with a row in `op_work` around its launch, if any. An op of matrix
-- products divides its work among its product kernels by duration, or assigns it to the longest kernel if no kernel is
-- known to compute products. Kernels that only change the layout or set memory get no share. Other ops divide their
-- work among all launched work, by duration. The shares of an op's events add up exactly to the op's work.
--
-- :reads op_work, launch, nesting, event, name_info
-- :only_with launch
-- :column event_id BIGINT      the GPU event
-- :column work_id BIGINT       the owning op, a row of `op_work`
-- :column time_ns BIGINT       part of the duration without earlier work of the same op
-- :column matrix_flop BIGINT   share of the op's `matrix_flop`; NULL if unknown
-- :column model_flop BIGINT    share of the op's `model_flop`; NULL if unknown
-- :column dense_flop BIGINT    share of the op's `dense_flop`; NULL if unknown
-- :column vector_flop BIGINT   share of the op's `vector_flop`; NULL if unknown
-- :column bytes BIGINT         share of the op's `bytes`; NULL if unknown
-- :column evidence VARCHAR     whole, if the op launched no other work; otherwise shared
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

gpu_launch as (
    select
        launch.event_id,
        nesting.track_id,
        nesting.start_ns as at_ns
    from launch
    inner join nesting on coalesce(launch.runtime_id, launch.op_id) = nesting.event_id
),

claimed_event as (
    select
        gpu_launch.event_id,
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
    from gpu_launch
    asof inner join outer_work on gpu_launch.track_id = outer_work.track_id and gpu_launch.at_ns >= outer_work.start_ns
    inner join event as timed on gpu_launch.event_id = timed.event_id
    left join name_info on timed.category = name_info.category and timed.name = name_info.name
    where gpu_launch.at_ns < outer_work.end_ns
),

-- Events with the weight of their share: products by name, else the longest event.
weighed_event as (
    select
        *,
        greatest(0, end_ns - greatest(start_ns, coalesce(max(end_ns) over earlier, start_ns))) as time_ns,
        count(*) over of_work as event_count,
        -- At least a nanosecond, which keeps the sum of an op's weights above 0.
        case
            when bool_or(is_product) over of_work then if(is_product, greatest(dur_ns, 1), 0)
            when coalesce(matrix_flop, 0) = 0 then greatest(dur_ns, 1)
            when row_number() over (partition by work_id order by dur_ns desc, event_id) = 1 then 1
            else 0
        end as weight
    from claimed_event
    window
        of_work as (partition by work_id),
        earlier as (partition by work_id order by start_ns, event_id rows between unbounded preceding and 1 preceding)
),

-- Share of the op's work done before and after each event, from 0 to 1. The last share is exactly 1.
event_share as (
    select
        *,
        (sum(weight) over so_far - weight) / sum(weight) over of_work as begun,
        sum(weight) over so_far / sum(weight) over of_work as reached
    from weighed_event
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
from event_share
