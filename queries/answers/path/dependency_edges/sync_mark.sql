-- A row is a synchronisation record of the trace, with the number of the call that made it.
--
-- :takes rank
-- :reads event, sync
-- :column kind VARCHAR                 Event Sync, Stream Sync, Context Sync or Stream Wait Event; NULL if not said
-- :column device BIGINT                the device
-- :column stream BIGINT                the stream that is waited for, or that waits for a CUDA event
-- :column wait_on_stream BIGINT        the stream where this CUDA event was recorded
-- :column wait_on_correlation BIGINT   the call that recorded it
-- :column correlation BIGINT           the call that waits, or lets the stream wait
-- :column start_ns BIGINT              start of the record
select
    sync.kind,
    sync.device,
    sync.stream,
    sync.wait_on_stream,
    sync.wait_on_correlation,
    event.correlation,
    event.start_ns
from sync
inner join event on sync.rank = event.rank and sync.event_id = event.event_id
where sync.rank = $rank
