-- Synchronisation on the GPU, with Kineto's names.
with recording_by_sync_id as (
    -- The call that recorded the awaited CUDA event, by the sync id of this use of the event, if known.
    select
        raw.event_id,
        cuda_event."streamId" as stream,
        cuda_event."correlationId" as correlation
    from raw
    inner join cuda_event on known_id(raw."eventSyncId") = cuda_event."eventSyncId"
    where cuda_event."eventSyncId" is not null
    qualify row_number() over (partition by raw.event_id order by cuda_event."correlationId" desc) = 1
),

-- Without a sync id: the last call that recorded the event before the wait.
recording_by_last_use as (
    select
        raw.event_id,
        cuda_event."streamId" as stream,
        cuda_event."correlationId" as correlation
    from raw
    asof inner join cuda_event
        on
            known_id(raw."eventId") = cuda_event."eventId"
            and raw."contextId" = cuda_event."contextId"
            and raw."correlationId" >= cuda_event."correlationId"
    where raw.event_id not in (select event_id from recording_by_sync_id)
),

event_recording as (
    select * from recording_by_sync_id
    union all
    select * from recording_by_last_use
),

named_sync as (
    select
        raw.*,
        case regexp_replace(type.name, '^CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_', '')
            when 'EVENT_SYNCHRONIZE' then 'Event Sync'
            when 'STREAM_WAIT_EVENT' then 'Stream Wait Event'
            when 'STREAM_SYNCHRONIZE' then 'Stream Sync'
            when 'CONTEXT_SYNCHRONIZE' then 'Context Sync'
        end as kineto_kind,
        coalesce(known_id(raw."streamId"), -1) as known_stream
    from raw
    left join enumeration as type
        on type.kind = 'ENUM_CUPTI_SYNC_TYPE' and coalesce(raw."syncType", raw."deprecatedSyncType") = type.id
)

select
    named_sync.event_id,
    'X' as ph,
    'cuda_sync' as category,
    coalesce(named_sync.kineto_kind, 'Unknown') as name,
    named_sync."deviceId"::varchar as pid,
    named_sync.known_stream::varchar as tid,
    start_in_time(named_sync."start") as start_ns,
    duration_in_time(named_sync."start", named_sync."end") as dur_ns,
    named_sync."correlationId" as correlation,
    named_sync.kineto_kind as kind,
    named_sync."deviceId" as device,
    named_sync."contextId" as context,
    named_sync.known_stream as stream,
    event_recording.stream as wait_on_stream,
    known_id(named_sync."eventId") as wait_on_event_id,
    event_recording.correlation as wait_on_correlation
from named_sync
left join event_recording on named_sync.event_id = event_recording.event_id
