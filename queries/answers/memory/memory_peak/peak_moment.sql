-- One row per device: when most is allocated on it, in one step or at all.
--
-- :takes step
-- :reads asked_memory
-- :column rank BIGINT            process rank
-- :column device_type VARCHAR    cpu, cuda, hip, xpu, hpu, mtia or other
-- :column device BIGINT          device number; -1 for the CPU
-- :column peak_bytes BIGINT      allocated on the device then
-- :column peak_id BIGINT         the allocation that reached it first
-- :column peak_ns BIGINT         when it was reached first
-- :column reserved_bytes BIGINT  reserved by the allocator then; NULL when unknown
-- :column peak_step BIGINT       training step then; NULL outside every step
select
    rank,
    device_type,
    device,
    max(allocated_bytes) as peak_bytes,
    arg_max(event_id, (allocated_bytes, -start_ns, -event_id)) as peak_id,
    arg_max(start_ns, (allocated_bytes, -start_ns, -event_id)) as peak_ns,
    arg_max_null(reserved_bytes, (allocated_bytes, -start_ns, -event_id)) as reserved_bytes,
    arg_max_null(step, (allocated_bytes, -start_ns, -event_id)) as peak_step
from asked_memory
where $step is null or step = $step
group by rank, device_type, device
