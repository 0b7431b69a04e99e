-- `cpu_span` again, with the spans of `crossing` fitted between the python frames that cross their borders.
--
-- `record_function` starts an annotation inside the python frame that enters it and ends it inside the frame that
-- leaves it, so both frames cross its borders. The annotation is taken to start when the entering frames end and to end
-- when the leaving frames start; a few microseconds change sides. Only the tree uses these times.
--
-- Which frames are open at a border? A frame of up to `4^size` ns that is open there starts at most so long before it,
-- in the same `place` (a piece of time of that length) or in the one before. So a join on equal sizes and places finds
-- all of them, and a few more per size; a join on times alone would compare each border with each frame.
--
-- :writes cpu_span
-- :reads cpu_span, crossing
-- :column event_id BIGINT   the event
-- :column track_id BIGINT   its thread
-- :column category VARCHAR  kind of event; NULL when the event has none
-- :column start_ns BIGINT   start; of an annotation that frames cross, the last end of those that enter it
-- :column end_ns BIGINT     end; of an annotation that frames cross, the first start of those that leave it
-- :column class_id BIGINT   class of its name, of `name_class`; NULL for a name that tells nothing
-- :column is_op BOOLEAN     a CPU op
-- :column layer INTEGER     of spans with equal times, the lower one is outside, as in `cpu_span` before
-- :column is_cut BOOLEAN    its end was taken back so that all nest; as before
with frame as (
    -- Python frames, with their size and place.
    select
        track_id,
        start_ns,
        end_ns,
        floor(log2(end_ns - start_ns) / 2)::tinyint + 1 as size,
        start_ns // (1::bigint << (2 * size)) as place
    from cpu_span
    where category = 'python_function' and end_ns > start_ns
),

-- Sizes that frames of a thread have.
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

-- Edges with each size and place in which a frame may be that is open there.
probe as (
    select
        edge.*,
        frame_size.size,
        unnest([0, 1]) as places_before,
        edge.at_ns // (1::bigint << (2 * frame_size.size)) - places_before as place
    from edge
    inner join frame_size on edge.track_id = frame_size.track_id
),

-- Spans with the last end of the frames that enter them, and the first start of those that leave them.
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

-- Spans that still have a duration then.
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
