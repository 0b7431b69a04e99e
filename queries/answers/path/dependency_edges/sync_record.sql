-- One row per synchronisation record, with its calls.
--
-- :reads sync_call, sync_mark
-- :only_with sync_mark
-- :column kind VARCHAR            Event Sync, Stream Sync, Context Sync or Stream Wait Event; NULL if unknown
-- :column device DEVICE
-- :column awaited_stream BIGINT   stream the call waits for; NULL without one
-- :column stream BIGINT           the stream of the record
-- :column wait_on_stream BIGINT   stream of the recording of the CUDA event
-- :column at_ns BIGINT            time at which the call waits, or makes a stream wait
-- :column recorded_ns BIGINT      time of the recording of the CUDA event; equal to `at_ns` without a CUDA event
-- :column call_id BIGINT          the call; NULL if not in the trace
with correlated_call as (
    -- A damaged trace may give one correlation to many calls: use the first call.
    select
        correlation,
        arg_min(event_id, (start_ns, event_id)) as event_id,
        min(start_ns) as start_ns
    from sync_call
    where correlation > 0
    group by correlation
)

select
    sync_mark.kind,
    sync_mark.device,
    case sync_mark.kind
        when 'Event Sync' then sync_mark.wait_on_stream
        when 'Stream Sync' then sync_mark.stream
    end as awaited_stream,
    sync_mark.stream,
    sync_mark.wait_on_stream,
    coalesce(caller.start_ns, sync_mark.start_ns) as at_ns,
    coalesce(recorded.start_ns, caller.start_ns, sync_mark.start_ns) as recorded_ns,
    caller.event_id as call_id
from sync_mark
left join correlated_call as caller on sync_mark.correlation = caller.correlation
left join correlated_call as recorded on sync_mark.wait_on_correlation = recorded.correlation
