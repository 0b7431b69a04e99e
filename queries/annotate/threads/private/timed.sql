-- Narrow copy of `event` (timed events only), with the class of each name; most annotation queries scan it.
--
-- :reads event, name_class
-- :column event_id BIGINT     the event
-- :column track_id BIGINT     its thread or stream; NULL when the event names none
-- :column category VARCHAR    kind of event; NULL when the event has none
-- :column start_ns BIGINT     start
-- :column end_ns BIGINT       end
-- :column correlation BIGINT  correlation id that ties a GPU event to its launch; NULL without one
-- :column external_id BIGINT  External id that ties a launch to its op; NULL without one
-- :column class_id BIGINT     class of its name, of `name_class`; NULL for a name that tells nothing
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
where event.dur_ns is not null
