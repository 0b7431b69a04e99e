-- GPU work with the innermost range that the code names (`record_function`) around its launch.
--
-- Where the launching call is not in the trace, or no annotation is around it, the innermost of the spans that the
-- profiler draws on the same stream counts if the work lies in it. Work without either has no annotation. Add up by
-- `annotation`.
--
-- :param rank BIGINT = NULL         only this rank
-- :param device BIGINT = NULL       only this device
-- :param step BIGINT = NULL         only work launched in this step
-- :param phase VARCHAR = NULL       only work launched in this phase
-- :param annotation VARCHAR = NULL  only work of annotations whose name contains this
-- :reads event, gpu_op, launch, label
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
with given as (
    select
        rank,
        track_id,
        category = 'gpu_user_annotation' as on_gpu,
        event_id,
        start_ns,
        end_ns
    from event
    where
        category in ('user_annotation', 'gpu_user_annotation')
        and dur_ns > 0
        and track_id is not null
        and ($rank is null or rank = $rank)
),

last_start as (
    select
        rank,
        track_id,
        on_gpu,
        start_ns,
        max(end_ns) as end_ns
    from given
    group by rank, track_id, on_gpu, start_ns
),

span as (
    select
        given.* exclude (end_ns),
        case
            when
                last_start.start_ns > given.start_ns and last_start.end_ns > given.end_ns
                and 2 * (given.end_ns - last_start.start_ns) < last_start.end_ns - last_start.start_ns
                then last_start.start_ns
            else given.end_ns
        end as end_ns
    from given
    asof left join last_start
        on
            given.rank = last_start.rank
            and given.track_id = last_start.track_id
            and given.on_gpu = last_start.on_gpu
            and given.end_ns > last_start.start_ns
),

edge as (
    select
        *,
        start_ns as at_ns,
        1 as opens
    from span
    union all
    select
        *,
        end_ns,
        -1
    from span
),

open_at as (
    select
        *,
        sum(opens) over so_far as depth,
        lead(at_ns) over so_far as next_ns
    from edge
    window so_far as (
        partition by rank, track_id, on_gpu order by at_ns, opens, end_ns desc, event_id rows unbounded preceding
    ) -- noqa: PRS
),

opened as (
    select * from open_at
    where opens = 1
),

innermost as (
    select
        open_at.rank,
        open_at.track_id,
        open_at.on_gpu,
        open_at.at_ns,
        case when open_at.at_ns < opened.end_ns then opened.event_id end as event_id
    from open_at
    asof left join opened
        on
            open_at.rank = opened.rank
            and open_at.track_id = opened.track_id
            and open_at.on_gpu = opened.on_gpu
            and open_at.depth = opened.depth
            and open_at.at_ns >= opened.at_ns
    where open_at.next_ns is distinct from open_at.at_ns
),

call_span as (
    select * from innermost
    where not on_gpu
),

gpu_span as (
    select * from innermost
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
    left join event as call on launch.rank = call.rank and coalesce(launch.runtime_id, launch.op_id) = call.event_id
    where
        ($rank is null or launch.rank = $rank)
        and ($step is null or label.step = $step)
        and ($phase is null or label.phase = $phase)
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
    ($device is null or gpu_op.device = $device)
    and ($annotation is null or contains(annotation.name, $annotation))
order by by_time.rank, by_time.start_ns, by_time.event_id
