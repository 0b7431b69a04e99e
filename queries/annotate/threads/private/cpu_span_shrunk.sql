-- `cpu_span` again: the marks of steps in `crossing` end where an annotation starts that crosses their end.
--
-- Only the tree uses these times.
--
-- :writes cpu_span
-- :reads cpu_span, crossing
-- :column event_id BIGINT   the event
-- :column track_id BIGINT   its thread
-- :column category VARCHAR  kind of event; NULL when the event has none
-- :column start_ns BIGINT   start
-- :column end_ns BIGINT     end; of a mark that an annotation crosses, start of the annotation
-- :column class_id BIGINT   class of its name, of `name_class`; NULL for a name that tells nothing
-- :column is_op BOOLEAN     a CPU op
-- :column layer INTEGER     of spans with equal times, the lower one is outside, as in `cpu_span` before
-- :column is_cut BOOLEAN    its end was taken back so that all nest; as before
select
    cpu_span.event_id,
    cpu_span.track_id,
    cpu_span.category,
    cpu_span.start_ns,
    coalesce(crossing.end_ns, cpu_span.end_ns) as end_ns,
    cpu_span.class_id,
    cpu_span.is_op,
    cpu_span.layer,
    cpu_span.is_cut
from cpu_span
left join crossing on cpu_span.event_id = crossing.event_id
