-- Event content without a column.
select
    event_id,
    args::varchar as args,
    null::varchar as fields
from batch
where args is not null
