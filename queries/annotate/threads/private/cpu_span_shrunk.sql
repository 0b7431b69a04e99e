-- `cpu_span` again, with the marks of steps of `crossing` ended where an annotation starts that crosses their end.
--
-- Only the tree uses these times.
--
-- :writes cpu_span
-- :reads cpu_span, crossing
-- :column event_id BIGINT   TODO
-- :column track_id BIGINT   TODO
-- :column category VARCHAR  TODO
-- :column start_ns BIGINT   TODO
-- :column end_ns BIGINT     TODO
-- :column class_id BIGINT   TODO
-- :column is_op BOOLEAN     TODO
-- :column layer INTEGER     TODO
-- :column is_cut BOOLEAN    TODO
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
