-- Allocated and reserved memory over time, from the allocations and releases in the trace (`profile_memory`).
--
-- One row per allocation or release, in order of time. Totals are the allocator's totals after the event. If the
-- profiler did not record totals, `allocated_bytes` is the running sum of the events in the trace, starting at 0.
--
-- :param rank BIGINT = NULL         only this rank
-- :param device BIGINT = NULL       only this device; -1 is the CPU
-- :param step BIGINT = NULL         only while this step runs on the CPU
-- :param phase PHASE = NULL         only in this phase of the allocating or releasing thread
-- :param module VARCHAR = NULL      only in this module or its submodules, by path
-- :reads memory_change, label_segment, model_op
-- :column rank RANK
-- :column device_type VARCHAR       cpu, cuda, hip, xpu, hpu, mtia or other
-- :column device DEVICE             -1 for the CPU
-- :column event_id BIGINT           the allocation or release
-- :column start_ns BIGINT           time of the event
-- :column bytes BIGINT              bytes allocated; negative for a release
-- :column allocated_bytes BIGINT    bytes allocated on the device after the event
-- :column reserved_bytes BIGINT     bytes reserved by the allocator after the event; NULL if unknown
-- :column step STEP                 NULL outside every step
-- :column phase PHASE               of the thread; NULL outside every step
-- :column module_path VARCHAR       module run by the thread; NULL if unknown
select
    memory_change.rank,
    memory_change.device_type,
    memory_change.device,
    memory_change.event_id,
    memory_change.start_ns,
    memory_change.bytes,
    memory_change.allocated_bytes,
    memory_change.reserved_bytes,
    memory_change.step,
    label_segment.phase,
    model_op.path as module_path
from memory_change
asof left join label_segment
    on
        memory_change.rank = label_segment.rank
        and memory_change.track_id = label_segment.track_id
        and memory_change.start_ns >= label_segment.start_ns
left join model_op on memory_change.rank = model_op.rank and label_segment.module_id = model_op.module_id
where
    is_asked($rank, memory_change.rank)
    and is_asked($device, memory_change.device)
    and is_asked($step, memory_change.step)
    and is_asked($phase, label_segment.phase)
    and in_module(model_op.path, $module)
order by
    memory_change.rank, memory_change.device_type, memory_change.device, memory_change.start_ns, memory_change.event_id
