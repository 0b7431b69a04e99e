-- The selected rows of `memory_change` that change the allocated bytes.
--
-- :takes rank, device
-- :reads memory_change
-- :column rank RANK
-- :column device_type VARCHAR     cpu, cuda, hip, xpu, hpu, mtia or other
-- :column device DEVICE           -1 for the CPU
-- :column event_id BIGINT         the event
-- :column track_id BIGINT         thread of the allocation or release
-- :column start_ns BIGINT         time
-- :column address BIGINT          address of the block
-- :column bytes BIGINT            bytes allocated; negative for a release
-- :column allocated_bytes BIGINT  bytes allocated on the device afterwards
-- :column reserved_bytes BIGINT   bytes reserved by the allocator afterwards; NULL if unknown
-- :column step STEP               NULL outside every step
select
    rank,
    device_type,
    device,
    event_id,
    track_id,
    start_ns,
    address,
    bytes,
    allocated_bytes,
    reserved_bytes,
    step
from memory_change
where
    bytes != 0
    and ($rank is null or rank = $rank)
    and ($device is null or device = $device)
