-- Every annotation (`record_function`) on threads, and as drawn on streams, with its nesting.
--
-- Rounding can make ranges overlap partly. A range counts as inner if at least half of its time lies within the outer
-- range, and ends with the outer range; otherwise the two ranges follow each other.
--
-- :reads event
-- :column rank RANK
-- :column event_id BIGINT     the annotation
-- :column name VARCHAR        name of the annotation
-- :column on_gpu BOOLEAN      the span was drawn by the profiler on a stream
-- :column track_id BIGINT     thread or stream of the annotation
-- :column external_id BIGINT  id shared by a span on a stream and its annotation on the CPU; NULL without one
-- :column depth BIGINT        number of annotations around this annotation
-- :column parent_id BIGINT    innermost annotation around this annotation; NULL without one
-- :column start_ns BIGINT     start
-- :column end_ns BIGINT       end, cut at the end of the outer annotation
-- :column dur_ns BIGINT       duration, as in `event`

-- one row per annotation, with its times in the file
with annotation_event as (
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
    from annotation_event
    group by rank, track_id, on_gpu, start_ns
),

-- one row per annotation, cut at the start of a crossing annotation with less than half inside
span as (
    select
        annotation_event.* exclude (end_ns),
        case
            when
                last_start.start_ns > annotation_event.start_ns and last_start.end_ns > annotation_event.end_ns
                and 2 * (annotation_event.end_ns - last_start.start_ns) < last_start.end_ns - last_start.start_ns
                then last_start.start_ns
            else annotation_event.end_ns
        end as end_ns
    from annotation_event
    asof left join last_start
        on
            annotation_event.rank = last_start.rank
            and annotation_event.track_id = last_start.track_id
            and annotation_event.on_gpu = last_start.on_gpu
            and annotation_event.end_ns > last_start.start_ns
),

-- one row per start of an annotation, and per end of an annotation with a duration
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

-- one row per border, with the number of open annotations before it
counted_edge as (
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

nested_span as (
    select
        span.*,
        counted_edge.depth
    from counted_edge
    inner join span on counted_edge.rank = span.rank and counted_edge.event_id = span.event_id
    where counted_edge.opens = 1
),

-- one row per annotation with a duration, with the depth inside
container as (
    select
        rank,
        track_id,
        on_gpu,
        event_id,
        start_ns,
        end_ns,
        depth + 1 as inner_depth
    from nested_span
    where end_ns > start_ns
)

select
    nested_span.rank,
    nested_span.event_id,
    nested_span.name,
    nested_span.on_gpu,
    nested_span.track_id,
    nested_span.external_id,
    nested_span.depth::bigint as depth,
    case when nested_span.start_ns < container.end_ns then container.event_id end as parent_id,
    nested_span.start_ns,
    case
        when nested_span.start_ns < container.end_ns then least(nested_span.end_ns, container.end_ns)
        else nested_span.end_ns
    end as end_ns,
    nested_span.dur_ns
from nested_span
asof left join container
    on
        nested_span.rank = container.rank
        and nested_span.track_id = container.track_id
        and nested_span.on_gpu = container.on_gpu
        and nested_span.depth = container.inner_depth
        and nested_span.start_ns >= container.start_ns
