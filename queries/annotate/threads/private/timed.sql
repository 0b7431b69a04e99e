-- Narrow copy of `event` (timed events only), with the class of each name. Most annotation queries scan this table.
--
-- Asynchronous events are not work of a thread and are excluded.
--
-- :reads event, name_class
-- :column event_id BIGINT     the event
-- :column track_id BIGINT     thread or stream; NULL if absent
-- :column category VARCHAR    kind of event; NULL if absent
-- :column start_ns BIGINT     start
-- :column end_ns BIGINT       end
-- :column correlation BIGINT  correlation id linking a GPU event to the launch; NULL if absent
-- :column external_id BIGINT  External id linking a launch to the op; NULL if absent
-- :column class_id BIGINT     class of the name, of `name_class`; NULL for names without a class
select
    event.event_id,
    event.track_id,
    event.category,
    event.start_ns,
    event.end_ns,
    event.correlation,
    event.external_id,
    name_class.class_id
from event
left join name_class on event.category = name_class.category and event.name = name_class.name
where event.dur_ns is not null and event.ph is distinct from 'b'
