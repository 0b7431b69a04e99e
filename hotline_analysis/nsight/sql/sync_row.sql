-- Attributes of synchronisations other than time.
select
    event_id,
    kind,
    device,
    context,
    stream,
    wait_on_stream,
    wait_on_event_id,
    wait_on_correlation
from batch
