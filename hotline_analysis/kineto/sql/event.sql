-- What every event has.
select
    event_id,
    ph,
    category,
    raw_category,
    name,
    pid,
    tid,
    start_ns,
    dur_ns,
    start_ns + dur_ns as end_ns,
    correlation,
    external_id,
    scope
from batch
where ph is not null or name is not null
