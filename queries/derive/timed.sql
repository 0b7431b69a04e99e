-- Events with a duration, narrow, with the class of their name: what the other queries of this folder read most.
--
-- :reads event, name_class
select
    event.event_id,
    event.track_id,
    event.ph,
    event.category,
    event.start_ns,
    event.dur_ns,
    event.end_ns,
    event.correlation,
    event.external_id,
    name_class.class_id
from event
left join name_class on event.category = name_class.category and event.name = name_class.name
where event.dur_ns is not null
