-- Time of annotations (`record_function`) on the CPU and the GPU, with and without inner annotations.
--
-- CPU rows have the annotations on threads and the GPU work launched in them. GPU rows have the spans drawn by the
-- profiler on each stream, from the first to the last work of an annotation. Not every profiler draws spans.
--
-- `total` includes inner annotations; nested annotations of the same name count once. `self` is the time without an
-- inner annotation. Rounding can make spans overlap partly. A span counts as inner if at least half of its time lies
-- within the outer span, and its `self` ends with the outer span; otherwise the two spans follow each other.
--
-- :param rank BIGINT = NULL          only this rank
-- :param step BIGINT = NULL          only annotations in this step; a GPU span has the step of the matching CPU
--                                    annotation
-- :param phase PHASE = NULL          only annotations starting in this phase; a GPU span has the phase of the matching
--                                    CPU annotation
-- :param module VARCHAR = NULL       only annotations in this module or its submodules, by path; a GPU span has the
--                                    module of its CPU annotation
-- :param annotation VARCHAR = NULL   only annotations whose name contains this text
-- :reads gpu_event, annotation_span, label, model_op
-- :column rank RANK
-- :column side VARCHAR               cpu or gpu
-- :column name VARCHAR               name of the annotation
-- :column count BIGINT               number of CPU annotations, or of GPU spans
-- :column total_ns BIGINT            time with inner annotations
-- :column self_ns BIGINT             time outside inner annotations
-- :column min_ns BIGINT              shortest duration
-- :column mean_ns BIGINT             mean duration
-- :column max_ns BIGINT              longest duration
-- :column max_id BIGINT              event of the longest annotation
-- :column gpu_total_ns BIGINT        duration of the GPU work launched in the annotation; NULL on the GPU side
-- :column gpu_self_ns BIGINT         duration of the GPU work launched outside inner annotations; NULL on the GPU side
with span as (
    select * from annotation_span
    where is_asked($rank, rank)
),

-- one row per thread and time of a launch: the sum of GPU time launched up to then
launch_moment as (
    select
        rank,
        call_track_id as track_id,
        call_start_ns as start_ns,
        sum(sum(dur_ns)) over (
            partition by rank, call_track_id order by call_start_ns rows unbounded preceding
        ) as until_here_ns
    from gpu_event
    where call_track_id is not null
    group by rank, call_track_id, call_start_ns
),

-- one row per span, with the GPU time launched on the thread before the span's end
span_until_end as (
    select
        span.*,
        coalesce(launch_moment.until_here_ns, 0) as gpu_until_end_ns
    from span
    asof left join launch_moment
        on
            span.rank = launch_moment.rank
            and span.track_id = launch_moment.track_id
            and span.end_ns > launch_moment.start_ns
),

span_with_work as (
    select
        span_until_end.*,
        span_until_end.gpu_until_end_ns - coalesce(launch_moment.until_here_ns, 0) as gpu_ns
    from span_until_end
    asof left join launch_moment
        on
            span_until_end.rank = launch_moment.rank
            and span_until_end.track_id = launch_moment.track_id
            and span_until_end.start_ns > launch_moment.start_ns
),

inner_time as (
    select
        rank,
        parent_id,
        sum(end_ns - start_ns) as covered_ns,
        sum(gpu_ns) as gpu_ns
    from span_with_work
    where parent_id is not null
    group by rank, parent_id
),

cpu_annotation as (
    select
        span.rank,
        span.external_id,
        arg_min({'step': label.step, 'phase': label.phase, 'module_id': label.module_id}, span.event_id) as place
    from span
    inner join label on span.rank = label.rank and span.event_id = label.event_id
    where not span.on_gpu and span.external_id > 0
    group by span.rank, span.external_id
),

-- one row per span, with self times, step, phase and module
timed_span as (
    select
        span_with_work.*,
        greatest(0, span_with_work.end_ns - span_with_work.start_ns - coalesce(inner_time.covered_ns, 0)) as self_ns,
        greatest(0, span_with_work.gpu_ns - coalesce(inner_time.gpu_ns, 0)) as gpu_self_ns,
        coalesce(label.step, cpu_annotation.place.step) as step,
        coalesce(label.phase, cpu_annotation.place.phase) as phase,
        coalesce(label.module_id, cpu_annotation.place.module_id) as module_id
    from span_with_work
    left join inner_time on span_with_work.rank = inner_time.rank and span_with_work.event_id = inner_time.parent_id
    left join label on span_with_work.rank = label.rank and span_with_work.event_id = label.event_id
    left join cpu_annotation
        on
            span_with_work.on_gpu
            and span_with_work.rank = cpu_annotation.rank
            and span_with_work.external_id = cpu_annotation.external_id
),

-- The spans asked for. An outer span that is not asked for hides no inner one.
asked_span as (
    select
        timed_span.*,
        is_outermost(
            timed_span.start_ns,
            timed_span.end_ns,
            (timed_span.rank, timed_span.track_id, timed_span.on_gpu, timed_span.name),
            (-timed_span.end_ns, timed_span.event_id)
        ) as is_outermost
    from timed_span
    left join model_op on timed_span.rank = model_op.rank and timed_span.module_id = model_op.module_id
    where
        is_asked($step, timed_span.step)
        and is_asked($phase, timed_span.phase)
        and in_module(model_op.path, $module)
        and ($annotation is null or contains(timed_span.name, $annotation))
)

select
    rank,
    case when on_gpu then 'gpu' else 'cpu' end as side,
    name,
    count(*) as count,
    coalesce(sum(dur_ns) filter (where is_outermost), 0)::bigint as total_ns,
    sum(self_ns)::bigint as self_ns,
    min(dur_ns)::bigint as min_ns,
    round(avg(dur_ns))::bigint as mean_ns,
    max(dur_ns)::bigint as max_ns,
    arg_max(event_id, (dur_ns, -event_id)) as max_id,
    case
        when not on_gpu
            then coalesce(sum(gpu_ns) filter (where is_outermost), 0)::bigint
    end as gpu_total_ns,
    case when not on_gpu then sum(gpu_self_ns)::bigint end as gpu_self_ns
from asked_span
group by rank, on_gpu, name
order by rank, side, total_ns desc, name
