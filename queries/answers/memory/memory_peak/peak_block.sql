-- One row per block allocated at the peak of its device.
--
-- :reads peak_moment, memory_block
-- :column rank RANK
-- :column device_type VARCHAR  cpu, cuda, hip, xpu, hpu, mtia or other
-- :column device DEVICE        -1 for the CPU
-- :column block_id BIGINT      event of the allocation, or of the release for a block older than the trace
-- :column bytes BIGINT         size of the block
-- :column category VARCHAR     category of the block
-- :column evidence VARCHAR     rule used for the category
-- :column phase PHASE          of the allocation; NULL if unknown
-- :column module_id BIGINT     module of the allocation; NULL if unknown
select
    memory_block.rank,
    memory_block.device_type,
    memory_block.device,
    memory_block.block_id,
    memory_block.bytes,
    memory_block.category,
    memory_block.evidence,
    memory_block.phase,
    memory_block.module_id
from memory_block
inner join peak_moment
    on
        (memory_block.rank, memory_block.device_type, memory_block.device)
        = (peak_moment.rank, peak_moment.device_type, peak_moment.device)
where
    (
        memory_block.start_ns is null
        or (memory_block.start_ns, memory_block.allocated_id) <= (peak_moment.peak_ns, peak_moment.peak_id)
    )
    and (
        memory_block.end_ns is null
        or (memory_block.end_ns, memory_block.gone_id) > (peak_moment.peak_ns, peak_moment.peak_id)
    )
