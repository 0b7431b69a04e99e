-- Step, phase, module and bucket of every event with a duration.
--
-- A CPU event is labelled by thread and start. GPU work is labelled by the launching call, regardless of when the work
-- runs. If the call is not in the trace, the op named by External id labels the work. Otherwise the labels are NULL,
-- and the bucket shows whether the work was launched before the trace began.
--
-- :reads timed, nesting, launch, phase_span, label_segment, node, node_module
-- :writes label
-- :column event_id BIGINT   the event
-- :column step STEP         NULL outside every step
-- :column phase PHASE       of the step; NULL outside every step
-- :column module_id BIGINT  the module (see `model_op`); NULL if unknown
-- :column pass VARCHAR      forward, backward or recompute; NULL if the module is unknown
-- :column bucket VARCHAR    bucket of the time: `module`, or a named bucket if the work belongs to no module
-- :column evidence VARCHAR  nn_module, alignment, sequence_number, flow or autograd_order; NULL without a module
with point as (
    -- The thread and time at which each event's labels are looked up.
    select
        event_id,
        track_id,
        start_ns as at_ns
    from nesting
    union all
    select
        launch.event_id,
        nesting.track_id,
        nesting.start_ns
    from launch
    inner join nesting on coalesce(launch.runtime_id, launch.op_id) = nesting.event_id
),

-- Segments with the module removed from gradient hooks. A hook on the gradient of one parameter sends a whole bucket of
-- gradients, which is not work of the parameter's module.
clean_segment as (
    select
        track_id,
        start_ns,
        step,
        phase,
        bucket,
        node_id,
        coalesce(bucket = 'communication' and evidence = 'autograd_order', false) as is_hook,
        case when not is_hook then module_id end as module_id,
        case when not is_hook then pass end as pass,
        case when not is_hook then evidence end as evidence
    from label_segment
),

-- Nodes with an unknown module, with the phase of the creating op.
origin_phase as (
    select
        node.event_id,
        phase_span.phase
    from node
    inner join nesting on node.forward_id = nesting.event_id
    asof inner join phase_span on nesting.track_id = phase_span.track_id and nesting.start_ns >= phase_span.start_ns
    where nesting.start_ns < phase_span.end_ns and node.event_id not in (select event_id from node_module)
),

-- Segments with their bucket.
segment as (
    select
        clean_segment.track_id,
        clean_segment.start_ns,
        clean_segment.step,
        case when clean_segment.step is not null then coalesce(clean_segment.phase, 'other') end as phase,
        clean_segment.module_id,
        clean_segment.pass,
        case
            when clean_segment.module_id is not null then 'module'
            when clean_segment.step is null then 'outside_steps'
            when clean_segment.bucket is not null then clean_segment.bucket
            when clean_segment.phase = 'backward' and origin_phase.phase = 'loss' then 'loss'
            else coalesce(clean_segment.phase, 'other')
        end as bucket,
        clean_segment.evidence
    from clean_segment
    left join origin_phase on clean_segment.node_id = origin_phase.event_id
),

-- Events with the labels of their segment.
event_label as (
    select
        point.event_id,
        segment.step,
        segment.phase,
        segment.module_id,
        segment.pass,
        coalesce(segment.bucket, 'outside_steps') as bucket,
        segment.evidence
    from point
    asof left join segment
        on point.track_id = segment.track_id and point.at_ns >= segment.start_ns
),

-- Start of the first GPU work with a known launch.
first_linked_work as (
    select min(timed.start_ns) as start_ns
    from launch
    inner join timed on launch.event_id = timed.event_id
    where launch.link is not null
),

-- Lowest correlation id and earliest start among runtime and driver calls.
first_call as (
    select
        min(correlation) as correlation,
        min(start_ns) as start_ns
    from timed
    where category in ('cuda_runtime', 'cuda_driver') and correlation > 0
),

-- GPU work without a known launch.
unlinked_work as (
    select
        launch.event_id,
        case
            when
                timed.correlation < first_call.correlation or timed.start_ns < first_call.start_ns
                or timed.start_ns < first_linked_work.start_ns then 'pre_window'
            else 'unlinked'
        end as bucket
    from launch
    inner join timed on launch.event_id = timed.event_id
    cross join first_call
    cross join first_linked_work
    where launch.link is null
)

select * from event_label
union all
select
    event_id,
    null,
    null,
    null,
    null,
    bucket,
    null
from unlinked_work
