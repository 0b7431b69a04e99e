-- Step, phase, module and bucket of every event with a duration.
--
-- A CPU event is labelled by its thread and start. GPU work is labelled by the call that launched it, whenever it runs;
-- where the trace does not hold that call, by the op that External id names; else its labels are NULL, and its bucket
-- says whether it was launched before the trace began.
--
-- :reads timed, nesting, launch, phase_span, label_segment, node, node_module
with point as (
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

in_segment as (
    select
        point.event_id,
        label_segment.step,
        label_segment.phase,
        -- a hook on a parameter's gradient may send a whole bucket of them: that is no work of this one's module
        label_segment.bucket = 'communication' and label_segment.evidence = 'autograd_order' as is_hook,
        case when not coalesce(is_hook, false) then label_segment.module_id end as module_id,
        case when not coalesce(is_hook, false) then label_segment.pass end as pass,
        case when not coalesce(is_hook, false) then label_segment.evidence end as evidence,
        label_segment.node_id,
        label_segment.bucket as named_bucket
    from point
    asof left join label_segment
        on point.track_id = label_segment.track_id and point.at_ns >= label_segment.start_ns
),

origin_phase as (
    select
        node.event_id,
        phase_span.phase
    from node
    inner join nesting on node.forward_id = nesting.event_id
    asof inner join phase_span on nesting.track_id = phase_span.track_id and nesting.start_ns >= phase_span.start_ns
    where nesting.start_ns < phase_span.end_ns and node.event_id not in (select event_id from node_module)
),

labelled as (
    select
        in_segment.event_id,
        in_segment.step,
        case when in_segment.step is not null then coalesce(in_segment.phase, 'other') end as phase,
        in_segment.module_id,
        in_segment.pass,
        case
            when in_segment.module_id is not null then 'module'
            when in_segment.step is null then 'outside_steps'
            when in_segment.named_bucket is not null then in_segment.named_bucket
            when in_segment.phase = 'backward' and origin_phase.phase = 'loss' then 'loss'
            else coalesce(in_segment.phase, 'other')
        end as bucket,
        in_segment.evidence
    from in_segment
    left join origin_phase on in_segment.node_id = origin_phase.event_id
),

first_launched as (
    select min(timed.start_ns) as start_ns
    from launch
    inner join timed on launch.event_id = timed.event_id
    where launch.link is not null
),

first_call as (
    select
        min(correlation) as correlation,
        min(start_ns) as start_ns
    from timed
    where category in ('cuda_runtime', 'cuda_driver') and correlation > 0
),

unlinked as (
    select
        launch.event_id,
        case
            when
                timed.correlation < first_call.correlation or timed.start_ns < first_call.start_ns
                or timed.start_ns < first_launched.start_ns then 'pre_window'
            else 'unlinked'
        end as bucket
    from launch
    inner join timed on launch.event_id = timed.event_id
    cross join first_call
    cross join first_launched
    where launch.link is null
)

select * from labelled
union all
select
    event_id,
    null,
    null,
    null,
    null,
    bucket,
    null
from unlinked
