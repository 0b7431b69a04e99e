-- `cpu_span` with the spans of `crossing` fitted between the python frames that cross their borders.
--
-- `record_function` starts an annotation inside the entering python frame and ends it inside the leaving frame; both
-- frames therefore cross the annotation's borders. The annotation is moved to start at the end of the entering frames
-- and to end at the start of the leaving frames, which shifts a few microseconds. The new times are used only for the
-- tree.
--
-- The frames open at a border are found as follows. An open frame of up to `4^size` ns starts at most `4^size` ns
-- before the border, in the same `place` (a piece of time of this length) or in the previous place. A join on equal
-- sizes and places finds all open frames, and a few others per size. A join on times alone would compare each border
-- with each frame.
--
-- :writes cpu_span
-- :reads cpu_span, crossing
-- :column event_id BIGINT   the event
-- :column track_id BIGINT   thread
-- :column category VARCHAR  kind of event; NULL if absent
-- :column start_ns BIGINT   start; for an annotation crossed by frames, the last end of the entering frames
-- :column end_ns BIGINT     end; for an annotation crossed by frames, the first start of the leaving frames
-- :column class_id BIGINT   class of the name, of `name_class`; NULL for names without a class
-- :column is_op BOOLEAN     a CPU op
-- :column layer INTEGER     nesting order of spans with equal times, lower is outside, as in `cpu_span` before
-- :column is_cut BOOLEAN    the end was moved to make spans nest; as before
with frame as (
    -- Python frames, with size and place.
    select
        track_id,
        start_ns,
        end_ns,
        floor(log2(end_ns - start_ns) / 2)::tinyint + 1 as size,
        start_ns // (1::bigint << (2 * size)) as place
    from cpu_span
    where category = 'python_function' and end_ns > start_ns
),

-- Sizes of each thread's frames.
frame_size as (
    select distinct
        track_id,
        size
    from frame
),

-- Starts and ends of the spans to fit.
edge as (
    select
        *,
        true as enters,
        start_ns as at_ns
    from crossing
    union all
    select
        *,
        false,
        end_ns
    from crossing
),

-- Edges, with each size and place of a possible open frame.
probe as (
    select
        edge.*,
        frame_size.size,
        unnest([0, 1]) as places_before,
        edge.at_ns // (1::bigint << (2 * frame_size.size)) - places_before as place
    from edge
    inner join frame_size on edge.track_id = frame_size.track_id
),

-- Spans, with the last end of the entering frames and the first start of the leaving frames.
border as (
    select
        probe.event_id,
        coalesce(max(frame.end_ns) filter (where probe.enters), any_value(probe.start_ns)) as start_ns,
        coalesce(min(frame.start_ns) filter (where not probe.enters), any_value(probe.end_ns)) as end_ns
    from frame
    inner join probe
        on frame.track_id = probe.track_id and frame.size = probe.size and frame.place = probe.place
    where
        case
            when probe.enters
                then frame.start_ns < probe.start_ns and probe.start_ns < frame.end_ns and frame.end_ns < probe.end_ns
            else probe.start_ns < frame.start_ns and frame.start_ns < probe.end_ns and probe.end_ns < frame.end_ns
        end
    group by probe.event_id
),

-- Fitted spans with a positive duration.
fitted_span as (
    select * from border
    where start_ns < end_ns
)

select
    cpu_span.event_id,
    cpu_span.track_id,
    cpu_span.category,
    coalesce(fitted_span.start_ns, cpu_span.start_ns) as start_ns,
    coalesce(fitted_span.end_ns, cpu_span.end_ns) as end_ns,
    cpu_span.class_id,
    cpu_span.is_op,
    cpu_span.layer,
    cpu_span.is_cut
from cpu_span
left join fitted_span on cpu_span.event_id = fitted_span.event_id
