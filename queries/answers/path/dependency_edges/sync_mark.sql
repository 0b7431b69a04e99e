-- One row per synchronisation record of the trace, with the correlation numbers of its calls.
--
-- :takes rank
-- :reads event, sync
-- :column kind VARCHAR                 Event Sync, Stream Sync, Context Sync or Stream Wait Event; NULL if unknown
-- :column device DEVICE
-- :column stream BIGINT                awaited stream, or the stream waiting for a CUDA event
-- :column wait_on_stream BIGINT        stream of the recording of the CUDA event
-- :column wait_on_correlation BIGINT   call recording the CUDA event
-- :column correlation BIGINT           waiting call, or call making the stream wait
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
