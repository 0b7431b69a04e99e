-- The blocks that live in the time that is asked for, each with the place that it counts to.
--
-- :takes by
-- :reads asked_moment, memory_block, model_op
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
select
    memory_block.rank,
    memory_block.device_type,
    memory_block.device,
    memory_block.block_id,
    memory_block.category,
    memory_block.evidence,
    case $by when 'module' then model_op.path when 'type' then model_op.type when 'phase' then memory_block.phase end
        as place,
    model_op.path as module_path,
    memory_block.bytes,
    (
        memory_block.start_ns is null
        or (memory_block.start_ns, memory_block.allocated_id) <= (asked_moment.peak_ns, asked_moment.peak_id)
    )
    and (
        memory_block.end_ns is null
        or (memory_block.end_ns, memory_block.gone_id) > (asked_moment.peak_ns, asked_moment.peak_id)
    ) as at_peak,
    memory_block.bytes::hugeint * greatest(
        0,
        least(coalesce(memory_block.end_ns, asked_moment.until_ns), asked_moment.until_ns)
        - greatest(coalesce(memory_block.start_ns, asked_moment.from_ns), asked_moment.from_ns)
    ) as byte_ns,
    greatest(coalesce(memory_block.start_ns, asked_moment.from_ns), asked_moment.from_ns) as begins_ns,
    case when memory_block.start_ns >= asked_moment.from_ns then memory_block.allocated_id else -1 end as begins_id,
    case when memory_block.end_ns <= asked_moment.until_ns then memory_block.end_ns end as ends_ns,
    case when memory_block.end_ns <= asked_moment.until_ns then memory_block.gone_id end as ends_id
from memory_block
inner join asked_moment
    on
        (memory_block.rank, memory_block.device_type, memory_block.device)
        = (asked_moment.rank, asked_moment.device_type, asked_moment.device)
left join model_op on memory_block.rank = model_op.rank and memory_block.module_id = model_op.module_id
where
    (memory_block.start_ns is null or memory_block.start_ns <= asked_moment.until_ns)
    and (memory_block.end_ns is null or memory_block.end_ns >= asked_moment.from_ns)
