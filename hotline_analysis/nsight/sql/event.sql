-- Columns common to all events. `pair` is the number of the thread or stream within the batch.
select
    batch.event_id,
    pair.pair,
    batch.ph,
    batch.category,
    null::varchar as raw_category,
    batch.name,
    batch.start_ns,
    batch.dur_ns,
    batch.start_ns + batch.dur_ns as end_ns,
    batch.correlation,
    null::bigint as external_id,
    null::varchar as scope
from batch
left join pair on batch.pid is not distinct from pair.pid and batch.tid is not distinct from pair.tid
