-- `cpu_span` again: on threads whose spans cross too often to be settled by cutting, the ends are given out anew, and
-- the span that started last ends first. Only damage makes such threads. Only the tree uses these times.
--
-- Starts and ends are read like parentheses: a span ends where as few spans are open again as before its start. So
-- spans nest whatever their times, and at each time as many are open as before.
--
-- :writes cpu_span
-- :reads cpu_span, nesting
-- :column event_id BIGINT   the event
-- :column track_id BIGINT   its thread
-- :column category VARCHAR  kind of event; NULL when the event has none
-- :column start_ns BIGINT   start
-- :column end_ns BIGINT     end; on a thread whose spans cross, the end that was given out for it
-- :column class_id BIGINT   class of its name, of `name_class`; NULL for a name that tells nothing
-- :column is_op BOOLEAN     a CPU op
-- :column layer INTEGER     of spans with equal times, the lower one is outside, as in `cpu_span` before
-- :column is_cut BOOLEAN    it has another end than in the file, so that all nest
with crossed_track as (
    -- Threads on which spans still cross.
    select distinct nesting.track_id
    from nesting
    inner join cpu_span on nesting.event_id = cpu_span.event_id
    where nesting.overhangs and nesting.end_ns < cpu_span.end_ns
),

-- Spans of these threads that take time.
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

-- Edges with their place in order, and the number of spans that are open after each.
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

-- The ends among them.
end_edge as (
    select * from counted_edge
    where change = -1
),

-- Spans with their new ends.
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
