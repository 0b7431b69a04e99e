-- A row is a synchronisation record and the calls it is about.
--
-- :reads sync_call, sync_mark
-- :only_with sync_mark
-- :column kind VARCHAR            Event Sync, Stream Sync, Context Sync or Stream Wait Event; NULL if not said
-- :column device BIGINT           the device
-- :column awaited_stream BIGINT   the stream that the call waits for; NULL if it waits for none
-- :column stream BIGINT           the stream of the record
-- :column wait_on_stream BIGINT   the stream where the CUDA event was recorded
-- :column at_ns BIGINT            when the call waits, or lets a stream wait
-- :column recorded_ns BIGINT      when the CUDA event was recorded; without one as `at_ns`
-- :column call_id BIGINT          the call; NULL when the trace holds none
with correlated as (
    -- A damaged trace may give many calls one correlation: the first has it.
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
left join correlated as caller on sync_mark.correlation = caller.correlation
left join correlated as recorded on sync_mark.wait_on_correlation = recorded.correlation
