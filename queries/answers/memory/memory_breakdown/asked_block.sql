-- The blocks that live in the time that is asked for, each with the place that it counts to.
--
-- Without allocations, a block is a tensor that shapes tell of.
--
-- :takes by
-- :reads asked_moment, memory_block, estimated_memory, model_op
-- :column rank BIGINT          process rank
-- :column device_type VARCHAR  cpu, cuda, hip, xpu, hpu, mtia or other
-- :column device BIGINT        device number; -1 for the CPU
-- :column block_id BIGINT      the block
-- :column category VARCHAR     what it is, as in `memory_block`
-- :column evidence VARCHAR     the rule that told
-- :column place VARCHAR        the module, its class or the phase that allocated it; NULL when unknown
-- :column module_path VARCHAR  the module; NULL when unknown
-- :column bytes BIGINT         size
-- :column at_peak BOOLEAN      it is alive at the peak
-- :column byte_ns HUGEINT      its bytes, times how long it lives in the time that is asked for
-- :column begins_ns BIGINT     when it begins there
-- :column begins_id BIGINT     the event; -1 for what was there before
-- :column ends_ns BIGINT       when it is released; NULL if later
-- :column ends_id BIGINT       the event; NULL if later
with told_block as (
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
    told_block.rank,
    told_block.device_type,
    told_block.device,
    told_block.block_id,
    told_block.category,
    told_block.evidence,
    case $by when 'module' then model_op.path when 'type' then model_op.type when 'phase' then told_block.phase end
        as place,
    model_op.path as module_path,
    told_block.bytes,
    (
        told_block.start_ns is null
        or (told_block.start_ns, told_block.allocated_id) <= (asked_moment.peak_ns, asked_moment.peak_id)
    )
    and (
        told_block.end_ns is null
        or (told_block.end_ns, told_block.gone_id) > (asked_moment.peak_ns, asked_moment.peak_id)
    ) as at_peak,
    told_block.bytes::hugeint * greatest(
        0,
        least(coalesce(told_block.end_ns, asked_moment.until_ns), asked_moment.until_ns)
        - greatest(coalesce(told_block.start_ns, asked_moment.from_ns), asked_moment.from_ns)
    ) as byte_ns,
    greatest(coalesce(told_block.start_ns, asked_moment.from_ns), asked_moment.from_ns) as begins_ns,
    case when told_block.start_ns >= asked_moment.from_ns then told_block.allocated_id else -1 end as begins_id,
    case when told_block.end_ns <= asked_moment.until_ns then told_block.end_ns end as ends_ns,
    case when told_block.end_ns <= asked_moment.until_ns then told_block.gone_id end as ends_id
from told_block
inner join asked_moment
    on
        (told_block.rank, told_block.device_type, told_block.device)
        = (asked_moment.rank, asked_moment.device_type, asked_moment.device)
left join model_op on told_block.rank = model_op.rank and told_block.module_id = model_op.module_id
where
    (told_block.start_ns is null or told_block.start_ns <= asked_moment.until_ns)
    and (told_block.end_ns is null or told_block.end_ns >= asked_moment.from_ns)
