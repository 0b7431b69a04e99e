-- Events with a duration, narrow, with the class of their name: what the other queries of this folder read most.
--
-- :reads event, name_class
-- :column event_id BIGINT     TODO
-- :column track_id BIGINT     TODO
-- :column ph VARCHAR          TODO
-- :column category VARCHAR    TODO
-- :column start_ns BIGINT     TODO
-- :column dur_ns BIGINT       TODO
-- :column end_ns BIGINT       TODO
-- :column correlation BIGINT  TODO
-- :column external_id BIGINT  TODO
-- :column class_id BIGINT     TODO
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
