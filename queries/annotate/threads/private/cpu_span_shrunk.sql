-- `cpu_span` with the step marks of `crossing` cut at the start of an annotation that crosses the mark's end.
--
-- The new times are used only for the tree.
--
-- :writes cpu_span
-- :reads cpu_span, crossing
-- :column event_id BIGINT   the event
-- :column track_id BIGINT   thread
-- :column category VARCHAR  kind of event; NULL if absent
-- :column start_ns BIGINT   start
-- :column end_ns BIGINT     end; for a mark crossed by an annotation, the start of the annotation
-- :column class_id BIGINT   class of the name, of `name_class`; NULL for names without a class
-- :column is_op BOOLEAN     a CPU op
-- :column layer INTEGER     nesting order of spans with equal times, lower is outside, as in `cpu_span` before
-- :column is_cut BOOLEAN    the end was moved to make spans nest; as before
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
