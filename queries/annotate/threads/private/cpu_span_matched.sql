-- `cpu_span` with reassigned ends on threads with too many crossing spans for cutting: the span started last ends
-- first.
--
-- Only damaged traces have such threads. The new times are used only for the tree.
--
-- Starts and ends are matched like parentheses: a span ends where the number of open spans is back at its value before
-- the start. Spans then nest regardless of their times, and the number of open spans at each time is unchanged.
--
-- :writes cpu_span
-- :reads cpu_span, nesting
-- :column event_id BIGINT   the event
-- :column track_id BIGINT   thread
-- :column category VARCHAR  kind of event; NULL if absent
-- :column start_ns BIGINT   start
-- :column end_ns BIGINT     end; on a thread with crossing spans, the reassigned end
-- :column class_id BIGINT   class of the name, of `name_class`; NULL for names without a class
-- :column is_op BOOLEAN     a CPU op
-- :column layer INTEGER     nesting order of spans with equal times, lower is outside, as in `cpu_span` before
-- :column is_cut BOOLEAN    the end differs from the file, to make spans nest
with crossed_track as (
    -- Threads on which spans still cross.
    select distinct nesting.track_id
    from nesting
    inner join cpu_span on nesting.event_id = cpu_span.event_id
    where nesting.overhangs and nesting.end_ns < cpu_span.end_ns
),

-- Spans of these threads with a positive duration.
span as (
    select
        event_id,
        track_id,
        start_ns,
        end_ns,
        layer
    from cpu_span
    where end_ns > start_ns and track_id in (select track_id from crossed_track)
),

-- Starts and ends of spans.
edge as (
    select
        event_id,
        track_id,
        start_ns as at_ns,
        1 as change,
        -end_ns as longest_first,
        layer
    from span
    union all
    select
        event_id,
        track_id,
        end_ns,
        -1,
        0,
        0
    from span
),

-- Edges with the position in order, and the number of spans open after each.
counted_edge as (
    select
        event_id,
        track_id,
        at_ns,
        change,
        row_number() over in_order as place,
        sum(change) over (in_order rows unbounded preceding) as open_count
    from edge
    window in_order as (order by track_id, at_ns, change, longest_first, layer, event_id)
),

end_edge as (
    select * from counted_edge
    where change = -1
),

-- Spans with the new ends.
matched_span as (
    select
        opening.event_id,
        end_edge.at_ns as end_ns
    from counted_edge as opening
    asof inner join end_edge
        on
            opening.track_id = end_edge.track_id
            and opening.open_count - 1 = end_edge.open_count
            and opening.place < end_edge.place
    where opening.change = 1
)

select
    cpu_span.event_id,
    cpu_span.track_id,
    cpu_span.category,
    cpu_span.start_ns,
    coalesce(matched_span.end_ns, cpu_span.end_ns) as end_ns,
    cpu_span.class_id,
    cpu_span.is_op,
    cpu_span.layer,
    cpu_span.is_cut or coalesce(matched_span.end_ns != cpu_span.end_ns, false) as is_cut
from cpu_span
left join matched_span on cpu_span.event_id = matched_span.event_id
