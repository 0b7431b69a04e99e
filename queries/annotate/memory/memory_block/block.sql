-- Blocks of memory, from the allocation, or the start of the trace, to the release.
--
-- An allocation lives until the next release of its address on its device, or until the address is allocated again.
-- Events with a block size of 100 TB or more are damaged and ignored, as in `memory_change`.
--
-- :reads memory_event, event
-- :column block_id BIGINT      the allocating event, or the releasing event for blocks older than the trace
-- :column device_type BIGINT   as in `memory_event`
-- :column device DEVICE        -1 for the CPU
-- :column address BIGINT       address
-- :column bytes BIGINT         size
-- :column allocated_id BIGINT  the allocating event; NULL for blocks older than the trace
-- :column allocated_on BIGINT  thread of the allocation
-- :column allocated_ns BIGINT  time of the allocation; NULL for blocks older than the trace
-- :column released_id BIGINT   the releasing event; NULL if not in the trace
-- :column released_on BIGINT   thread of the release
-- :column gone_ns BIGINT       time of the release, or of the next allocation of the address; NULL without either
-- :column gone_id BIGINT       event of the release or next allocation; NULL if absent
with change_of_address as (
    select
        memory_event.event_id,
        memory_event.device_type,
        memory_event.device_id as device,
        memory_event.address,
        memory_event.bytes,
        event.track_id,
        event.start_ns,
        lag(memory_event.bytes) over of_address as bytes_before,
        lead(memory_event.event_id) over of_address as next_id,
        lead(event.track_id) over of_address as next_track_id,
        lead(event.start_ns) over of_address as next_ns,
        lead(memory_event.bytes) over of_address as next_bytes
    from memory_event
    inner join event on memory_event.event_id = event.event_id
    where event.start_ns is not null and memory_event.bytes != 0 and abs(memory_event.bytes::double) <= 1e14
    window of_address as (
        partition by memory_event.device_type, memory_event.device_id, memory_event.address
        order by event.start_ns, memory_event.event_id
    )
)

select
    event_id as block_id,
    device_type,
    device,
    address,
    bytes,
    event_id as allocated_id,
    track_id as allocated_on,
    start_ns as allocated_ns,
    case when next_bytes < 0 then next_id end as released_id,
    case when next_bytes < 0 then next_track_id end as released_on,
    next_ns as gone_ns,
    next_id as gone_id
from change_of_address
where bytes > 0
union all
-- Blocks with a release only.
select
    event_id as block_id,
    device_type,
    device,
    address,
    -bytes as bytes,
    null as allocated_id,
    null as allocated_on,
    null as allocated_ns,
    event_id as released_id,
    track_id as released_on,
    start_ns as gone_ns,
    event_id as gone_id
from change_of_address
where bytes < 0 and bytes_before is null
