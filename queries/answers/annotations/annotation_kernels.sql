-- GPU work with the innermost range that the code names (`record_function`) around its launch.
--
-- Where the launching call is not in the trace, or no annotation is around it, the innermost of the spans that the
-- profiler draws on the same stream counts if the work lies in it. Work without either has no annotation. Add up by
-- `annotation`.
--
-- :param rank BIGINT = NULL         only this rank
-- :param device BIGINT = NULL       only this device
-- :param step BIGINT = NULL         only work launched in this step
-- :param phase PHASE = NULL
--                                   only work launched in this phase
-- :param module VARCHAR = NULL      only work launched in this module or one in it, by path
-- :param annotation VARCHAR = NULL  only work of annotations whose name contains this
-- :reads annotation_span, event, gpu_op, launch, label, model_op
-- :column rank BIGINT               process rank
-- :column event_id BIGINT           the GPU event
-- :column category VARCHAR          kernel, gpu_memcpy or gpu_memset
-- :column name VARCHAR              its name
-- :column device BIGINT             device number; NULL when the event names none
-- :column stream BIGINT             stream; NULL when the event names none
-- :column start_ns BIGINT           start
-- :column dur_ns BIGINT             duration
-- :column annotation_id BIGINT      event of the annotation; NULL without one
-- :column annotation VARCHAR        its name; NULL without one
-- :column evidence VARCHAR          launch or gpu_span; NULL without an annotation
with annotated as ( -- noqa: ST03
    select * from annotation_span
    where is_asked($rank, rank)
),

piece as (
    select
        unnest(lane),
        start_ns as at_ns,
        event_id
    from innermost(
        'annotated', {'rank': rank, 'track_id': track_id, 'on_gpu': on_gpu}, depth, parent_id
    )
),

call_span as (
    select * from piece
    where not on_gpu
),

gpu_span as (
    select * from piece
    where on_gpu
),

work as (
    select
        event.rank,
        event.event_id,
        event.category,
        event.name,
        event.track_id,
        event.start_ns,
        event.dur_ns,
        call.track_id as call_track_id,
        call.start_ns as called_ns
    from launch
    inner join event on launch.rank = event.rank and launch.event_id = event.event_id
    left join label on launch.rank = label.rank and launch.event_id = label.event_id
    left join model_op on label.rank = model_op.rank and label.module_id = model_op.module_id
    left join event as call on launch.rank = call.rank and coalesce(launch.runtime_id, launch.op_id) = call.event_id
    where
        is_asked($rank, launch.rank)
        and is_asked($step, label.step)
        and is_asked($phase, label.phase)
        and in_module(model_op.path, $module)
),

by_launch as (
    select
        work.*,
        call_span.event_id as launch_annotation_id
    from work
    asof left join call_span
        on
            work.rank = call_span.rank
            and work.call_track_id = call_span.track_id
            and work.called_ns >= call_span.at_ns
),

by_time as (
    select
        by_launch.*,
        gpu_span.event_id as gpu_annotation_id
    from by_launch
    asof left join gpu_span
        on
            by_launch.rank = gpu_span.rank
            and by_launch.track_id = gpu_span.track_id
            and by_launch.start_ns >= gpu_span.at_ns
)

select
    by_time.rank,
    by_time.event_id,
    by_time.category,
    by_time.name,
    gpu_op.device,
    gpu_op.stream,
    by_time.start_ns,
    by_time.dur_ns,
    annotation.event_id as annotation_id,
    annotation.name as annotation,
    case
        when by_time.launch_annotation_id is not null then 'launch'
        when by_time.gpu_annotation_id is not null then 'gpu_span'
    end as evidence
from by_time
inner join gpu_op on by_time.rank = gpu_op.rank and by_time.event_id = gpu_op.event_id
left join event as annotation
    on
        by_time.rank = annotation.rank
        and coalesce(by_time.launch_annotation_id, by_time.gpu_annotation_id) = annotation.event_id
where
    is_asked($device, gpu_op.device)
    and ($annotation is null or contains(annotation.name, $annotation))
order by by_time.rank, by_time.start_ns, by_time.event_id
