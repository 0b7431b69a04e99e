-- Blocks allocated by ops of forward in the selected steps, each with its op.
--
-- :takes rank, step
-- :reads memory_block, event, op
-- :column rank RANK
-- :column block_id BIGINT      the block
-- :column step STEP
-- :column op_id BIGINT         op of a library
-- :column name VARCHAR         name of the op
-- :column module_id BIGINT     module; NULL if unknown
-- :column bytes BIGINT         size
-- :column is_saved BOOLEAN     the block is saved for backward
-- :column is_light BOOLEAN     the op is cheap for the size of its result
-- :column start_ns BIGINT      time of the allocation
-- :column end_ns BIGINT        time of the release
-- :column op_start_ns BIGINT   start of the op
-- :column op_dur_ns BIGINT     duration of the op
-- :column device DEVICE
-- :column units BIGINT         size for comparison: GPU allocators round up to multiples of 512 bytes
select
    memory_block.rank,
    memory_block.block_id,
    memory_block.step,
    memory_block.op_id,
    event.name,
    memory_block.module_id,
    memory_block.bytes,
    memory_block.evidence = 'forward_to_backward' as is_saved,
    is_light_op(event.name) and op.input_dims is not null as is_light,
    memory_block.start_ns,
    memory_block.end_ns,
    event.start_ns as op_start_ns,
    event.dur_ns as op_dur_ns,
    memory_block.device,
    if(memory_block.device < 0, memory_block.bytes, (memory_block.bytes + 511) // 512) as units
from memory_block
inner join event on memory_block.rank = event.rank and memory_block.op_id = event.event_id
left join op on memory_block.rank = op.rank and memory_block.op_id = op.event_id
where
    memory_block.step is not null
    and memory_block.phase in ('forward', 'loss')
    and coalesce(memory_block.pass != 'recompute', true)
    and is_asked($rank, memory_block.rank)
    and is_asked($step, memory_block.step)
