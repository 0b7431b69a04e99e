-- Nesting of the events on each CPU thread. One row per event with a duration, except GPU work.
--
-- :reads cpu_event
-- :column rank RANK
-- :column event_id BIGINT    the event
-- :column track_id BIGINT    thread
-- :column depth BIGINT       number of enclosing events on the thread
-- :column parent_id BIGINT   the innermost enclosing event; NULL for a root
-- :column start_ns BIGINT    start, as in `event`
-- :column end_ns BIGINT      end, cut to the parent's end for an overhanging event (old traces round to microseconds)
-- :column self_ns BIGINT     time inside the event and outside its children
-- :column op_id BIGINT       the innermost enclosing CPU op, or the event itself if it is an op; NULL if absent
-- :column overhangs BOOLEAN  the event ends after its parent, and was cut
select
    rank,
    event_id,
    track_id,
    depth,
    parent_id,
    start_ns,
    end_ns,
    self_ns,
    op_id,
    overhangs
from cpu_event
