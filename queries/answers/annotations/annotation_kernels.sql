-- GPU work with the innermost annotation (`record_function`) around its launch.
--
-- If the launching call is unknown or outside all annotations, the profiler's spans on the same stream decide: the
-- annotation is the innermost span around the start of the work. Otherwise the annotation is NULL. Sum by `annotation`
-- for totals.
--
-- :param rank BIGINT = NULL         only this rank
-- :param device BIGINT = NULL       only this device
-- :param step BIGINT = NULL         only work launched in this step
-- :param phase PHASE = NULL         only work launched in this phase
-- :param module VARCHAR = NULL      only work launched in this module or its submodules, by path
-- :param annotation VARCHAR = NULL  only annotations whose name contains this text
-- :reads gpu_event, annotation_span, event
-- :column rank RANK
-- :column event_id BIGINT           the GPU event
-- :column category VARCHAR          kernel, gpu_memcpy or gpu_memset
-- :column name VARCHAR              name of the GPU event
-- :column device DEVICE             NULL if the event has no device
-- :column stream BIGINT             stream; NULL if the event has no stream
-- :column start_ns BIGINT           start
-- :column dur_ns BIGINT             duration
-- :column annotation_id BIGINT      event of the annotation; NULL without an annotation
-- :column annotation VARCHAR        name of the annotation; NULL without an annotation
-- :column evidence VARCHAR          launch or gpu_span; NULL without an annotation
with asked_annotation as ( -- noqa: ST03
    select * from annotation_span
    where is_asked($rank, rank)
),

piece as (
    select
        unnest(lane),
        start_ns as at_ns,
        event_id
    from innermost(
        'asked_annotation', {'rank': rank, 'track_id': track_id, 'on_gpu': on_gpu}, depth, parent_id
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

-- one row per selected GPU event, with its launching call
work as (
    select
        rank,
        event_id,
        category,
        name,
        track_id,
        nullif(device, -1) as device,
        stream,
        start_ns,
        dur_ns,
        call_track_id,
        call_start_ns as called_ns
    from gpu_event
    where
        is_asked($rank, rank)
        and is_asked($step, step)
        and is_asked($phase, phase)
        and in_module(module_path, $module)
),

-- one row per GPU event, with the innermost CPU annotation around the launching call
work_in_call_span as (
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

-- one row per GPU event, with the innermost GPU span around its start
annotated_work as (
    select
        work_in_call_span.*,
        gpu_span.event_id as gpu_annotation_id
    from work_in_call_span
    asof left join gpu_span
        on
            work_in_call_span.rank = gpu_span.rank
            and work_in_call_span.track_id = gpu_span.track_id
            and work_in_call_span.start_ns >= gpu_span.at_ns
)

select
    annotated_work.rank,
    annotated_work.event_id,
    annotated_work.category,
    annotated_work.name,
    annotated_work.device,
    annotated_work.stream,
    annotated_work.start_ns,
    annotated_work.dur_ns,
    annotation.event_id as annotation_id,
    annotation.name as annotation,
    case
        when annotated_work.launch_annotation_id is not null then 'launch'
        when annotated_work.gpu_annotation_id is not null then 'gpu_span'
    end as evidence
from annotated_work
left join event as annotation
    on
        annotated_work.rank = annotation.rank
        and coalesce(annotated_work.launch_annotation_id, annotated_work.gpu_annotation_id) = annotation.event_id
where
    is_asked($device, annotated_work.device)
    and ($annotation is null or contains(annotation.name, $annotation))
order by annotated_work.rank, annotated_work.start_ns, annotated_work.event_id
