-- Blocks alive in the selected time, each with the module, class or phase that allocated it.
--
-- Without recorded allocations, a block is a tensor derived from shapes.
--
-- :takes by
-- :reads asked_moment, memory_block, estimated_memory, model_op
-- :column rank RANK
-- :column device_type VARCHAR  cpu, cuda, hip, xpu, hpu, mtia or other
-- :column device DEVICE        -1 for the CPU
-- :column block_id BIGINT      the block
-- :column category VARCHAR     category, as in `memory_block`
-- :column evidence VARCHAR     rule used for the category
-- :column place VARCHAR        module, class or phase of the allocation; NULL if unknown
-- :column module_path VARCHAR  module; NULL if unknown
-- :column bytes BIGINT         size
-- :column at_peak BOOLEAN      the block is alive at the peak
-- :column byte_ns HUGEINT      bytes, times the lifetime within the selected time
-- :column begins_ns BIGINT     start of the lifetime within the selected time
-- :column begins_id BIGINT     event at the start; -1 for older blocks
-- :column ends_ns BIGINT       release; NULL if after the selected time
-- :column ends_id BIGINT       event of the release; NULL if after the selected time

-- one row per recorded or estimated block
with any_block as (
    select
        rank,
        device_type,
        device,
        block_id,
        category,
        evidence,
        phase,
        module_id,
        bytes,
        start_ns,
        allocated_id,
        end_ns,
        gone_id
    from memory_block
    union all
    select
        estimated_memory.rank,
        asked_moment.device_type,
        asked_moment.device,
        estimated_memory.maker_id as block_id,
        estimated_memory.category,
        'backward_shapes',
        estimated_memory.phase,
        estimated_memory.module_id,
        estimated_memory.bytes,
        estimated_memory.start_ns,
        estimated_memory.maker_id as allocated_id,
        estimated_memory.end_ns,
        -1
    from estimated_memory
    inner join asked_moment on estimated_memory.rank = asked_moment.rank and asked_moment.is_estimated
    where estimated_memory.start_ns is not null
)

select
    any_block.rank,
    any_block.device_type,
    any_block.device,
    any_block.block_id,
    any_block.category,
    any_block.evidence,
    case $by when 'module' then model_op.path when 'type' then model_op.type when 'phase' then any_block.phase end
        as place,
    model_op.path as module_path,
    any_block.bytes,
    (
        any_block.start_ns is null
        or (any_block.start_ns, any_block.allocated_id) <= (asked_moment.peak_ns, asked_moment.peak_id)
    )
    and (
        any_block.end_ns is null
        or (any_block.end_ns, any_block.gone_id) > (asked_moment.peak_ns, asked_moment.peak_id)
    ) as at_peak,
    any_block.bytes::hugeint * greatest(
        0,
        least(coalesce(any_block.end_ns, asked_moment.until_ns), asked_moment.until_ns)
        - greatest(coalesce(any_block.start_ns, asked_moment.from_ns), asked_moment.from_ns)
    ) as byte_ns,
    greatest(coalesce(any_block.start_ns, asked_moment.from_ns), asked_moment.from_ns) as begins_ns,
    case when any_block.start_ns >= asked_moment.from_ns then any_block.allocated_id else -1 end as begins_id,
    case when any_block.end_ns <= asked_moment.until_ns then any_block.end_ns end as ends_ns,
    case when any_block.end_ns <= asked_moment.until_ns then any_block.gone_id end as ends_id
from any_block
inner join asked_moment
    on
        (any_block.rank, any_block.device_type, any_block.device)
        = (asked_moment.rank, asked_moment.device_type, asked_moment.device)
left join model_op on any_block.rank = model_op.rank and any_block.module_id = model_op.module_id
where
    (any_block.start_ns is null or any_block.start_ns <= asked_moment.until_ns)
    and (any_block.end_ns is null or any_block.end_ns >= asked_moment.from_ns)
