-- Step, phase, module and bucket of every event with a duration.
--
-- A CPU event is labelled by its thread and start. GPU work is labelled by the call that launched it, whenever it runs;
-- where the trace does not hold that call, by the op that External id names; else its labels are NULL, and its bucket
-- says whether it was launched before the trace began.
--
-- :reads event, nesting, launch, step, phase_span, module_segment, marker_segment, model_op, gpu_op, node, node_module
with point as (
    select
        event_id,
        track_id,
        start_ns as at_ns,
        false as is_gpu
    from nesting
    union all
    select
        launch.event_id,
        nesting.track_id,
        nesting.start_ns,
        true
    from launch
    inner join nesting on coalesce(launch.runtime_id, launch.op_id) = nesting.event_id
),

in_step as (
    select
        point.*,
        case when point.at_ns < step.end_ns then step.step end as step
    from point
    asof left join step on point.at_ns >= step.start_ns
),

in_phase as (
    select
        in_step.*,
        case when in_step.at_ns < phase_span.end_ns then phase_span.phase end as phase
    from in_step
    asof left join phase_span on in_step.track_id = phase_span.track_id and in_step.at_ns >= phase_span.start_ns
),

in_module as (
    select
        in_phase.*,
        case when in_phase.at_ns < module_segment.end_ns then module_segment.module_id end as module_id,
        case when in_phase.at_ns < module_segment.end_ns then module_segment.pass end as pass,
        case when in_phase.at_ns < module_segment.end_ns then module_segment.evidence end as evidence,
        case when in_phase.at_ns < module_segment.end_ns and module_segment.is_node then module_segment.active_id end
            as node_id
    from in_phase
    asof left join module_segment
        on in_phase.track_id = module_segment.track_id and in_phase.at_ns >= module_segment.start_ns
),

bucket_segment as (
    select * from marker_segment
    where family = 'bucket'
),

in_bucket as (
    select
        in_module.*,
        case when in_module.at_ns < bucket_segment.end_ns then bucket_segment.label end as named_bucket
    from in_module
    asof left join bucket_segment
        on in_module.track_id = bucket_segment.track_id and in_module.at_ns >= bucket_segment.start_ns
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
        in_bucket.event_id,
        in_bucket.step,
        case when in_bucket.step is not null then coalesce(in_bucket.phase, 'other') end as phase,
        in_bucket.module_id,
        in_bucket.pass,
        case
            when in_bucket.module_id is not null then 'module'
            when in_bucket.step is null then 'outside_steps'
            when in_bucket.named_bucket is not null then in_bucket.named_bucket
            when in_bucket.phase = 'backward' and origin_phase.phase = 'loss' then 'loss'
            else coalesce(in_bucket.phase, 'other')
        end as bucket,
        in_bucket.evidence
    from in_bucket
    left join origin_phase on in_bucket.node_id = origin_phase.event_id
),

first_launched as (
    select min(event.start_ns) as start_ns
    from launch
    inner join event on launch.event_id = event.event_id
    where launch.link is not null
),

first_call as (
    select
        min(correlation) as correlation,
        min(start_ns) as start_ns
    from event
    where category in ('cuda_runtime', 'cuda_driver') and correlation > 0
),

unlinked as (
    select
        launch.event_id,
        case
            when
                event.correlation < first_call.correlation or event.start_ns < first_call.start_ns
                or event.start_ns < first_launched.start_ns then 'pre_window'
            else 'unlinked'
        end as bucket
    from launch
    inner join event on launch.event_id = event.event_id
    cross join first_call
    cross join first_launched
    where launch.event_id not in (select event_id from labelled)
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
