-- One row per device: the allocation peak of the selected step, or of the whole trace.
--
-- :takes step
-- :reads asked_memory
-- :column rank RANK
-- :column device_type VARCHAR    cpu, cuda, hip, xpu, hpu, mtia or other
-- :column device DEVICE          -1 for the CPU
-- :column peak_bytes BIGINT      bytes allocated on the device at the peak
-- :column peak_id BIGINT         first allocation at the peak
-- :column peak_ns BIGINT         time at which the peak was first reached
-- :column reserved_bytes BIGINT  bytes reserved by the allocator at the peak; NULL if unknown
-- :column peak_step BIGINT       training step at the peak; NULL outside every step
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
