-- Ends of arrows. Their pid, tid and ts point to the event they are attached to.
select
    event_id,
    case category when 'ac2g' then 'launch' else coalesce(category, '') end as kind,
    flow_id,
    ph,
    bp as binding,
    pid,
    tid,
    start_ns,
    0 as claimed
from batch
where ph in ('s', 't', 'f')
