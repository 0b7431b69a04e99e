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
-- :param annotation VARCHAR = NULL   only annotations whose name contains this
-- :reads event, label, launch
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
with given as (
    select
        rank,
        event_id,
        name,
        category = 'gpu_user_annotation' as on_gpu,
        track_id,
        external_id,
        start_ns,
        end_ns,
        dur_ns
    from event
    where
        category in ('user_annotation', 'gpu_user_annotation')
        and dur_ns is not null
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
        rank,
        track_id,
        on_gpu,
        event_id,
        start_ns as at_ns,
        1 as opens,
        -end_ns as longest_first,
        (end_ns > start_ns)::integer as change
    from span
    union all
    select
        rank,
        track_id,
        on_gpu,
        event_id,
        end_ns,
        0,
        0,
        -1
    from span
    where end_ns > start_ns
),

open_at as (
    select
        rank,
        event_id,
        opens,
        sum(change) over so_far - change as depth
    from edge
    window so_far as (
        partition by rank, track_id, on_gpu order by at_ns, opens, longest_first, event_id rows unbounded preceding
    ) -- noqa: PRS
),

nested as (
    select
        span.*,
        open_at.depth
    from open_at
    inner join span on open_at.rank = span.rank and open_at.event_id = span.event_id
    where open_at.opens = 1
),

container as (
    select
        rank,
        track_id,
        on_gpu,
        event_id,
        start_ns,
        end_ns,
        depth + 1 as inner_depth
    from nested
    where end_ns > start_ns
),

inside as (
    select
        nested.*,
        case when nested.start_ns < container.end_ns then container.event_id end as parent_id,
        case
            when nested.start_ns < container.end_ns then least(nested.end_ns, container.end_ns) else nested.end_ns
        end as cut_ns
    from nested
    asof left join container
        on
            nested.rank = container.rank
            and nested.track_id = container.track_id
            and nested.on_gpu = container.on_gpu
            and nested.depth = container.inner_depth
            and nested.start_ns >= container.start_ns
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
        inside.*,
        coalesce(launched.until_here_ns, 0) as gpu_until_end_ns
    from inside
    asof left join launched
        on
            inside.rank = launched.rank
            and inside.track_id = launched.track_id
            and inside.cut_ns > launched.start_ns
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
        sum(cut_ns - start_ns) as covered_ns,
        sum(gpu_ns) as gpu_ns
    from at_start
    where parent_id is not null
    group by rank, parent_id
),

step_of as (
    select
        span.rank,
        span.external_id,
        min(label.step) as step
    from span
    inner join label on span.rank = label.rank and span.event_id = label.event_id
    where not span.on_gpu and span.external_id > 0
    group by span.rank, span.external_id
),

timed as (
    select
        at_start.*,
        greatest(0, at_start.cut_ns - at_start.start_ns - coalesce(children.covered_ns, 0)) as self_ns,
        greatest(0, at_start.gpu_ns - coalesce(children.gpu_ns, 0)) as gpu_self_ns,
        coalesce(
            at_start.start_ns >= max(at_start.cut_ns) over (
                partition by at_start.rank, at_start.track_id, at_start.on_gpu, at_start.name
                order by at_start.start_ns, at_start.cut_ns desc, at_start.event_id
                rows between unbounded preceding and 1 preceding
            ),
            true
        ) as is_outermost,
        coalesce(label.step, step_of.step) as step
    from at_start
    left join children on at_start.rank = children.rank and at_start.event_id = children.parent_id
    left join label on at_start.rank = label.rank and at_start.event_id = label.event_id
    left join step_of
        on at_start.on_gpu and at_start.rank = step_of.rank and at_start.external_id = step_of.external_id
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
    case when not on_gpu then coalesce(sum(gpu_ns) filter (where is_outermost), 0)::bigint end as gpu_total_ns,
    case when not on_gpu then sum(gpu_self_ns)::bigint end as gpu_self_ns
from timed
where ($step is null or step = $step) and ($annotation is null or contains(name, $annotation))
group by rank, on_gpu, name
order by rank, side, total_ns desc, name
