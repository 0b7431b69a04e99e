-- A row is a call that waits for a stream, or for all of a device, as a record or its name tells.
--
-- It waits for the last work that was launched there before it, or before the CUDA event was recorded.
--
-- :reads launch_batch, sync_call, sync_record
-- :only_with launch_batch
-- :only_with sync_call
-- :column event_id BIGINT  the call
-- :column work_id BIGINT   the last GPU event that it waits for; NULL if nothing was launched there
-- :column end_ns BIGINT    when this is done
with blocking as (
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

-- One row per call and device whose streams it waits for, all of them; -2 is every device.
for_all_streams as (
    select distinct
        blocking.event_id,
        sync_record.device,
        blocking.start_ns as before_ns
    from blocking
    inner join sync_record on blocking.event_id = sync_record.call_id
    where sync_record.kind = 'Context Sync' and sync_record.device in (select device from queue)
    union all
    select
        event_id,
        -2,
        start_ns
    from blocking
    where is_for_all and event_id not in (select call_id from sync_record where call_id is not null)
),

-- PyTorch has at most four pools of 32 streams for a device (c10/cuda/CUDAStream.cpp). Where a trace has more, the work
-- that ended last stands for all that a call waits for, or each call would be paired with each stream.
crowd as (
    select count(*) > 128 as has_many_streams from queue
),

-- One row per call and stream that it waits for, and up to which launch.
asked as (
    select
        blocking.event_id,
        queue.device,
        queue.stream,
        case when sync_record.kind = 'Event Sync' then sync_record.recorded_ns else blocking.start_ns end as before_ns
    from blocking
    inner join sync_record on blocking.event_id = sync_record.call_id
    inner join queue on sync_record.device = queue.device and sync_record.awaited_stream = queue.stream
    union all
    select
        for_all_streams.event_id,
        queue.device,
        queue.stream,
        for_all_streams.before_ns
    from for_all_streams
    inner join queue on for_all_streams.device in (queue.device, -2)
    where not (select has_many_streams from crowd)
),

-- One row per launch in a trace with many streams, and of all work so far, on the device and on any, the last to end.
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
    asked.event_id,
    launch_batch.last_id as work_id,
    launch_batch.end_ns
from asked
asof left join launch_batch
    on
        asked.device = launch_batch.device
        and asked.stream = launch_batch.stream
        and asked.before_ns > launch_batch.launched_ns
union all
select
    for_all_streams.event_id,
    last_of_all.work.last_id,
    last_of_all.work.end_ns
from for_all_streams
asof left join last_of_all
    on for_all_streams.device = last_of_all.device and for_all_streams.before_ns > last_of_all.launched_ns
where (select has_many_streams from crowd)
