-- Nesting of the events on each CPU thread. One row per event with a duration, except GPU work.
--
-- The depth of an event is the number of events open at its start: +1 at every start, -1 at every end, summed in order
-- of time. Every event that starts on a thread ends, and the sum is back at 0 where the next thread begins. The parent
-- of an event is the last event before it that started one level up. Neither needs a loop. The running sum needs no
-- memory for sorting, because a window without `order by` keeps the row order of the inner query. If the next row is
-- not a start, the event has no children; most events can therefore be skipped as parents. Instantaneous events contain
-- no events. An event that ends after its parent is cut at the parent's end, and marked in `overhangs`.
--
-- :reads cpu_span
-- :writes nesting
-- :column event_id BIGINT    the event
-- :column track_id BIGINT    thread
-- :column depth BIGINT       number of enclosing events on the thread
-- :column parent_id BIGINT   the innermost enclosing event; NULL for a root
-- :column start_ns BIGINT    start, as in `event`
-- :column end_ns BIGINT      end, cut to the parent's end for an overhanging event (old traces round to microseconds)
-- :column self_ns BIGINT     time inside the event and outside its children
-- :column op_id BIGINT       the innermost enclosing CPU op, or the event itself if it is an op; NULL if absent
-- :column overhangs BOOLEAN  the event ends after its parent, and was cut
with edge as (
    -- Starts and ends of spans.
    select
        event_id,
        track_id,
        start_ns as at_ns,
        1::tinyint as opens,
        -end_ns as longest_first,
        layer::tinyint as layer,
        (end_ns > start_ns)::tinyint as change,
        (is_op and end_ns > start_ns)::tinyint as op_change
    from cpu_span
    union all
    select
        event_id,
        track_id,
        end_ns,
        0,
        0,
        0,
        -1,
        -is_op::tinyint
    from cpu_span
    where end_ns > start_ns
),

-- Edges in order of time.
edge_in_order as (
    select
        event_id,
        opens,
        change,
        op_change
    from edge
    order by track_id, at_ns, opens, longest_first, layer, event_id
),

-- Edges, with the number of events and ops open on the thread right before.
counted_edge as (
    select
        event_id,
        opens,
        sum(change) over so_far - change as depth,
        sum(op_change) over so_far - op_change as op_depth,
        lead(opens) over () = 1 as has_child
    from edge_in_order
    window so_far as (rows unbounded preceding) -- noqa: PRS
),

-- Spans, with the number of enclosing events and ops.
span_start as (
    select
        cpu_span.event_id,
        cpu_span.track_id,
        cpu_span.start_ns,
        cpu_span.end_ns,
        cpu_span.is_op,
        cpu_span.is_cut,
        counted_edge.depth::integer as depth,
        counted_edge.op_depth::integer as op_depth,
        counted_edge.has_child
    from counted_edge
    inner join cpu_span on counted_edge.event_id = cpu_span.event_id
    where counted_edge.opens = 1
),

-- Spans that contain spans.
container as (
    select
        event_id,
        track_id,
        start_ns,
        end_ns,
        depth + 1 as inner_depth
    from span_start
    where has_child and end_ns > start_ns
),

-- Spans, with the innermost enclosing span.
nested_span as (
    select
        inside.event_id,
        inside.track_id,
        inside.depth,
        inside.op_depth,
        inside.is_op,
        inside.is_cut,
        inside.start_ns,
        inside.end_ns,
        case when inside.start_ns < container.end_ns then container.event_id end as parent_id,
        case when inside.start_ns < container.end_ns then container.end_ns end as parent_end_ns
    from span_start as inside
    asof left join container
        on
            inside.track_id = container.track_id
            and inside.depth = container.inner_depth
            and inside.start_ns >= container.start_ns
),

-- Ops that contain spans.
op_container as (
    select
        event_id,
        track_id,
        start_ns,
        op_depth + 1 as inner_depth
    from span_start
    where has_child and is_op and end_ns > start_ns
),

-- Spans other than ops, with the innermost enclosing op.
op_around as (
    select
        inside.event_id,
        op_container.event_id as op_id
    from span_start as inside
    asof inner join op_container
        on
            inside.track_id = op_container.track_id
            and inside.op_depth = op_container.inner_depth
            and inside.start_ns >= op_container.start_ns
    where not inside.is_op and inside.op_depth > 0
),

-- Time of each span's children.
child_time as (
    select
        parent_id,
        sum(least(end_ns, parent_end_ns) - start_ns)::bigint as covered_ns
    from nested_span
    where parent_id is not null
    group by parent_id
)

select
    nested_span.event_id,
    nested_span.track_id,
    nested_span.depth,
    nested_span.parent_id,
    nested_span.start_ns,
    coalesce(least(nested_span.end_ns, nested_span.parent_end_ns), nested_span.end_ns) as end_ns,
    greatest(
        coalesce(least(nested_span.end_ns, nested_span.parent_end_ns), nested_span.end_ns) - nested_span.start_ns
        - coalesce(child_time.covered_ns, 0),
        0
    ) as self_ns,
    case when nested_span.is_op then nested_span.event_id else op_around.op_id end as op_id,
    nested_span.is_cut or coalesce(nested_span.end_ns > nested_span.parent_end_ns, false) as overhangs,
    nested_span.op_depth
from nested_span
left join op_around on nested_span.event_id = op_around.event_id
left join child_time on nested_span.event_id = child_time.parent_id
