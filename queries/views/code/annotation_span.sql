-- Every range that the code names (`record_function`), on threads and as drawn on streams, nested.
--
-- Times round, so ranges may cross: one that begins in another and lies in it for at least half of its time is inside,
-- and ends with it; else they follow each other.
--
-- :reads event
-- :column rank BIGINT         process rank
-- :column event_id BIGINT     the annotation
-- :column name VARCHAR        its name
-- :column on_gpu BOOLEAN      a span that the profiler drew on a stream
-- :column track_id BIGINT     its thread or stream
-- :column external_id BIGINT  id that a span on a stream shares with its annotation on the CPU; NULL without one
-- :column depth BIGINT        number of annotations around it
-- :column parent_id BIGINT    the innermost annotation around it; NULL without one
-- :column start_ns BIGINT     start
-- :column end_ns BIGINT       end, cut where it crosses another annotation
-- :column dur_ns BIGINT       duration, as in `event`
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
)

select
    nested.rank,
    nested.event_id,
    nested.name,
    nested.on_gpu,
    nested.track_id,
    nested.external_id,
    nested.depth::bigint as depth,
    case when nested.start_ns < container.end_ns then container.event_id end as parent_id,
    nested.start_ns,
    case when nested.start_ns < container.end_ns then least(nested.end_ns, container.end_ns) else nested.end_ns end
        as end_ns,
    nested.dur_ns
from nested
asof left join container
    on
        nested.rank = container.rank
        and nested.track_id = container.track_id
        and nested.on_gpu = container.on_gpu
        and nested.depth = container.inner_depth
        and nested.start_ns >= container.start_ns
