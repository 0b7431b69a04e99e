-- Time of the ranges that the code names (`record_function`), on the CPU and on the GPU, with and without inner ones.
--
-- On the CPU: annotations on their threads, and the GPU work launched in them. On the GPU (`side` gpu): the spans that
-- the profiler itself draws on each stream, from the first to the last work of an annotation; not every profiler does.
-- `total` counts an annotation with the annotations inside it, once where one of the same name is inside another;
-- `self` counts the time in which no inner annotation runs. Times round, so spans may cross: one that begins in another
-- and lies in it for at least half of its time is inside, and its `self` ends with it; else they follow each other.
--
-- :param rank BIGINT = NULL          only this rank
-- :param step BIGINT = NULL          only annotations in this step; GPU spans have the step of their CPU annotation
-- :param phase PHASE = NULL
--                                    only annotations that begin in this phase; GPU spans likewise
-- :param module VARCHAR = NULL       only annotations in this module or one in it, by path; GPU spans likewise
-- :param annotation VARCHAR = NULL   only annotations whose name contains this
-- :reads annotation_span, event, label, launch, model_op
-- :column rank BIGINT                process rank
-- :column side VARCHAR               cpu or gpu
-- :column name VARCHAR               the annotation
-- :column count BIGINT               how often it was entered; on the GPU, spans
-- :column total_ns BIGINT            time with inner annotations
-- :column self_ns BIGINT             time outside inner annotations
-- :column min_ns BIGINT              shortest
-- :column mean_ns BIGINT             mean
-- :column max_ns BIGINT              longest
-- :column max_id BIGINT              event of the longest
-- :column gpu_total_ns BIGINT        duration of the GPU work launched in it; NULL on the GPU side
-- :column gpu_self_ns BIGINT         of it, launched outside inner annotations; NULL on the GPU side
with span as (
    select * from annotation_span
    where is_asked($rank, rank)
),

launched as (
    select
        call.rank,
        call.track_id,
        call.start_ns,
        sum(sum(event.dur_ns)) over (
            partition by call.rank, call.track_id order by call.start_ns rows unbounded preceding
        ) as until_here_ns
    from launch
    inner join event on launch.rank = event.rank and launch.event_id = event.event_id
    inner join event as call on launch.rank = call.rank and coalesce(launch.runtime_id, launch.op_id) = call.event_id
    group by call.rank, call.track_id, call.start_ns
),

at_end as (
    select
        span.*,
        coalesce(launched.until_here_ns, 0) as gpu_until_end_ns
    from span
    asof left join launched
        on
            span.rank = launched.rank
            and span.track_id = launched.track_id
            and span.end_ns > launched.start_ns
),

at_start as (
    select
        at_end.*,
        at_end.gpu_until_end_ns - coalesce(launched.until_here_ns, 0) as gpu_ns
    from at_end
    asof left join launched
        on at_end.rank = launched.rank and at_end.track_id = launched.track_id and at_end.start_ns > launched.start_ns
),

children as (
    select
        rank,
        parent_id,
        sum(end_ns - start_ns) as covered_ns,
        sum(gpu_ns) as gpu_ns
    from at_start
    where parent_id is not null
    group by rank, parent_id
),

place_of as (
    select
        span.rank,
        span.external_id,
        arg_min({'step': label.step, 'phase': label.phase, 'module_id': label.module_id}, span.event_id) as place
    from span
    inner join label on span.rank = label.rank and span.event_id = label.event_id
    where not span.on_gpu and span.external_id > 0
    group by span.rank, span.external_id
),

timed as (
    select
        at_start.*,
        greatest(0, at_start.end_ns - at_start.start_ns - coalesce(children.covered_ns, 0)) as self_ns,
        greatest(0, at_start.gpu_ns - coalesce(children.gpu_ns, 0)) as gpu_self_ns,
        is_outermost(
            at_start.start_ns,
            at_start.end_ns,
            (at_start.rank, at_start.track_id, at_start.on_gpu, at_start.name),
            (-at_start.end_ns, at_start.event_id)
        ) as is_outermost,
        coalesce(label.step, place_of.place.step) as step,
        coalesce(label.phase, place_of.place.phase) as phase,
        coalesce(label.module_id, place_of.place.module_id) as module_id
    from at_start
    left join children on at_start.rank = children.rank and at_start.event_id = children.parent_id
    left join label on at_start.rank = label.rank and at_start.event_id = label.event_id
    left join place_of
        on at_start.on_gpu and at_start.rank = place_of.rank and at_start.external_id = place_of.external_id
)

select
    timed.rank,
    case when timed.on_gpu then 'gpu' else 'cpu' end as side,
    timed.name,
    count(*) as count,
    coalesce(sum(timed.dur_ns) filter (where timed.is_outermost), 0)::bigint as total_ns,
    sum(timed.self_ns)::bigint as self_ns,
    min(timed.dur_ns)::bigint as min_ns,
    round(avg(timed.dur_ns))::bigint as mean_ns,
    max(timed.dur_ns)::bigint as max_ns,
    arg_max(timed.event_id, (timed.dur_ns, -timed.event_id)) as max_id,
    case
        when not timed.on_gpu then coalesce(sum(timed.gpu_ns) filter (where timed.is_outermost), 0)::bigint
    end as gpu_total_ns,
    case when not timed.on_gpu then sum(timed.gpu_self_ns)::bigint end as gpu_self_ns
from timed
left join model_op on timed.rank = model_op.rank and timed.module_id = model_op.module_id
where
    is_asked($step, timed.step)
    and is_asked($phase, timed.phase)
    and in_module(model_op.path, $module)
    and ($annotation is null or contains(timed.name, $annotation))
group by timed.rank, timed.on_gpu, timed.name
order by timed.rank, side, total_ns desc, timed.name
