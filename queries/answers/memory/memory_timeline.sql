-- Memory allocated and reserved over time, from the allocations and releases in the trace (`profile_memory`).
--
-- One row per allocation or release, in order of time. Totals are those of the allocator after the event; where the
-- profiler did not record them, `allocated_bytes` sums up what the trace shows, from 0.
--
-- :param rank BIGINT = NULL         only this rank
-- :param device BIGINT = NULL       only this device; -1 is the CPU
-- :param step BIGINT = NULL         only while this step runs on the CPU
-- :param phase PHASE = NULL
--                                   only in this phase of the thread that allocates or releases
-- :param module VARCHAR = NULL      only in this module or one in it, by path
-- :reads memory_change, label_segment, model_op
-- :column rank BIGINT               process rank
-- :column device_type VARCHAR       cpu, cuda, hip, xpu, hpu, mtia or other
-- :column device BIGINT             device number; -1 for the CPU
-- :column event_id BIGINT           the allocation or release
-- :column start_ns BIGINT           when it happened
-- :column bytes BIGINT              bytes allocated, negative when released
-- :column allocated_bytes BIGINT    allocated on the device after it
-- :column reserved_bytes BIGINT     reserved by the allocator after it; NULL when unknown
-- :column step BIGINT               training step; NULL outside every step
-- :column phase VARCHAR             phase of the thread; NULL outside every step
-- :column module_path VARCHAR       module that the thread runs; NULL where none is known
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
