-- One row per call that waits for a stream or a whole device, according to a record or the call's name.
--
-- The call waits for the latest launch there before the call, or before the recording of the CUDA event.
--
-- :reads launch_batch, sync_call, sync_record
-- :only_with launch_batch
-- :only_with sync_call
-- :column event_id BIGINT  the call
-- :column work_id BIGINT   last GPU event waited for; NULL without an earlier launch
-- :column end_ns BIGINT    end of this GPU event
with blocking_call as (
    select *
    from sync_call
    where is_waiting
),

queue as (
    select distinct
        device,
        stream
    from launch_batch
),

-- One row per call and device whose streams it all waits for; -2 stands for every device.
device_wait as (
    select distinct
        blocking_call.event_id,
        sync_record.device,
        blocking_call.start_ns as before_ns
    from blocking_call
    inner join sync_record on blocking_call.event_id = sync_record.call_id
    where sync_record.kind = 'Context Sync' and sync_record.device in (select device from queue)
    union all
    select
        event_id,
        -2,
        start_ns
    from blocking_call
    where is_for_all and event_id not in (select call_id from sync_record where call_id is not null)
),

-- PyTorch has at most four pools of 32 streams per device (c10/cuda/CUDAStream.cpp). If a trace has more streams, only
-- the work that ended last counts, to avoid pairing each call with each stream.
crowd as (
    select count(*) > 128 as has_many_streams from queue
),

-- One row per call and awaited stream, with the time limit for its launches.
queue_wait as (
    select
        blocking_call.event_id,
        queue.device,
        queue.stream,
        case when sync_record.kind = 'Event Sync' then sync_record.recorded_ns else blocking_call.start_ns end
            as before_ns
    from blocking_call
    inner join sync_record on blocking_call.event_id = sync_record.call_id
    inner join queue on sync_record.device = queue.device and sync_record.awaited_stream = queue.stream
    union all
    select
        device_wait.event_id,
        queue.device,
        queue.stream,
        device_wait.before_ns
    from device_wait
    inner join queue on device_wait.device in (queue.device, -2)
    where not (select has_many_streams from crowd)
),

-- One row per launch in a trace with many streams: the work so far with the latest end, per device and over all.
last_of_all as (
    select
        device,
        launched_ns,
        max({'end_ns': end_ns, 'last_id': last_id}) over (
            partition by device order by launched_ns, last_id rows unbounded preceding
        ) as work
    from (
        select
            unnest([device, -2]) as device,
            launched_ns,
            end_ns,
            last_id
        from launch_batch
        where (select has_many_streams from crowd)
    ) as either
)

select
    queue_wait.event_id,
    launch_batch.last_id as work_id,
    launch_batch.end_ns
from queue_wait
asof left join launch_batch
    on
        queue_wait.device = launch_batch.device
        and queue_wait.stream = launch_batch.stream
        and queue_wait.before_ns > launch_batch.launched_ns
union all
select
    device_wait.event_id,
    last_of_all.work.last_id,
    last_of_all.work.end_ns
from device_wait
asof left join last_of_all
    on device_wait.device = last_of_all.device and device_wait.before_ns > last_of_all.launched_ns
where (select has_many_streams from crowd)
