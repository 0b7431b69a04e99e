-- Every gradient that a step accumulates: how large it is, and the GPU work that makes it.
--
-- :param rank BIGINT       the process rank
-- :param start_ns BIGINT   start of the first step on the CPU
-- :param end_ns BIGINT     end of the last step on the CPU
-- :reads event, label, launch, nesting, op
-- :column event_id BIGINT  the node of autograd that accumulates it
-- :column step BIGINT      the step; NULL outside
-- :column bytes BIGINT     its size; NULL if shapes or types were not recorded
-- :column ready_id BIGINT  the work that was launched last before it on its thread; NULL without any
with accumulated as (
    select
        event.event_id,
        nesting.track_id,
        event.start_ns,
        label.step,
        op.input_types ->> 0 as dtype,
        -- the shape of the first input: of no dimension, it has one element
        list_product(try_cast(op.input_dims -> 0 as bigint[])) as elements
    from event
    inner join nesting on event.rank = nesting.rank and event.event_id = nesting.event_id
    left join label on event.rank = label.rank and event.event_id = label.event_id
    left join op on event.rank = op.rank and event.event_id = op.event_id
    where
        event.rank = $rank
        and event.name = 'torch::autograd::AccumulateGrad'
        and event.start_ns >= $start_ns
        and event.start_ns < $end_ns
),

launching as (
    select
        nesting.track_id,
        nesting.start_ns,
        launch.event_id
    from launch
    inner join nesting on launch.rank = nesting.rank and launch.runtime_id = nesting.event_id
    where launch.rank = $rank
)

select
    accumulated.event_id,
    accumulated.step,
    try_cast(accumulated.elements * case
        when regexp_matches(accumulated.dtype, '(?i)double|int64|long') then 8
        when regexp_matches(accumulated.dtype, '(?i)half|bfloat16') then 2
        when regexp_matches(accumulated.dtype, '(?i)float') then 4
    end as bigint) as bytes,
    launching.event_id as ready_id
from accumulated
asof left join launching
    on accumulated.track_id = launching.track_id and accumulated.start_ns >= launching.start_ns
order by accumulated.start_ns, accumulated.event_id
