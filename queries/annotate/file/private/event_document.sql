-- The document of each event, for a file written by two writers and therefore made of several JSON documents in
-- sequence.
--
-- :reads event, document
-- :column event_id BIGINT  the event
-- :column process VARCHAR  number of the document from 0, as text
select
    event.event_id,
    document.number::varchar as process
from event
asof inner join document on event.event_id >= document.first_id
order by event.event_id
