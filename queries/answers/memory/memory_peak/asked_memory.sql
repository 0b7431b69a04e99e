-- The rows of `memory_change` that are asked for and change something.
--
-- :takes rank, device
-- :reads memory_change
-- :column rank BIGINT             process rank
-- :column device_type VARCHAR     cpu, cuda, hip, xpu, hpu, mtia or other
-- :column device BIGINT           device number; -1 for the CPU
-- :column event_id BIGINT         the event
-- :column track_id BIGINT         thread that allocated or released
-- :column start_ns BIGINT         time
-- :column address BIGINT          address of the block
-- :column bytes BIGINT            bytes allocated; negative when released
-- :column allocated_bytes BIGINT  allocated on the device afterwards
-- :column reserved_bytes BIGINT   reserved by the allocator then; NULL when unknown
-- :column step BIGINT             training step; NULL outside every step
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
