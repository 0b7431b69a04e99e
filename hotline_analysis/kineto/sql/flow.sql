-- Flow events, the ends of arrows. The pid, tid and ts of a flow event point to the event at that end.
select
    batch.event_id,
    case batch.category when 'ac2g' then 'launch' else coalesce(batch.category, '') end as kind,
    batch.flow_id,
    batch.ph,
    batch.bp as binding,
    pair.pair,
    batch.start_ns,
    0 as claimed
from batch
left join pair on batch.pid is not distinct from pair.pid and batch.tid is not distinct from pair.tid
where batch.ph in ('s', 't', 'f')
