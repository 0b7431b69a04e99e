-- Blocks saved for backward by modules in some steps: one row per block and module around it.
--
-- :param rank BIGINT        the process rank
-- :param start_ns BIGINT    start of the first step on the CPU
-- :param end_ns BIGINT      end of the last step on the CPU
-- :reads memory_block, model_op, module_ancestor, module_span, event
-- :column block_id BIGINT   the block
-- :column module_path VARCHAR
--                           module, or a module around it
-- :column call_ns BIGINT    start of the module call
-- :column is_output BOOLEAN the largest one of the last op of the call
-- :column needed_until_ns BIGINT
--                           start of the second next block of the call, or end of the call: ops using the block are
--                           done
-- :column again_ns BIGINT   start of the first autograd node that needs a block of the call
with forward_span as (
    select * from module_span
    where rank = $rank and pass = 'forward'
),

block_of_module as (
    select
        memory_block.block_id,
        module_ancestor.ancestor_id as module_id,
        memory_block.start_ns,
        memory_block.bytes,
        coalesce(memory_block.op_id, -memory_block.block_id) as op_id,
        memory_block.rank,
        coalesce(event.start_ns, memory_block.end_ns) as needed_ns
    from memory_block
    inner join module_ancestor
        on memory_block.rank = module_ancestor.rank and memory_block.module_id = module_ancestor.module_id
    left join event on memory_block.rank = event.rank and memory_block.released_node_id = event.event_id
    where
        memory_block.rank = $rank
        and memory_block.evidence = 'forward_to_backward'
        and memory_block.start_ns >= $start_ns
        and memory_block.start_ns < $end_ns
),

block_of_call as (
    select
        block_of_module.*,
        forward_span.start_ns as call_ns,
        forward_span.end_ns as call_end_ns,
        last_value(block_of_module.op_id) over (
            partition by block_of_module.module_id, forward_span.start_ns
            order by block_of_module.start_ns, block_of_module.block_id
            rows between unbounded preceding and unbounded following
        ) as last_op_id
    from block_of_module
    asof inner join forward_span
        on block_of_module.module_id = forward_span.module_id and block_of_module.start_ns >= forward_span.start_ns
)

select
    block_of_call.block_id,
    model_op.path as module_path,
    block_of_call.call_ns,
    block_of_call.op_id = block_of_call.last_op_id
    and row_number() over (
        partition by block_of_call.module_id, block_of_call.call_ns, block_of_call.op_id
        order by block_of_call.bytes desc, block_of_call.block_id
    ) = 1 as is_output,
    coalesce(
        lead(block_of_call.start_ns, 2) over of_call, greatest(block_of_call.call_end_ns, block_of_call.start_ns)
    ) as needed_until_ns,
    min(block_of_call.needed_ns) over (partition by block_of_call.module_id, block_of_call.call_ns) as again_ns
from block_of_call
inner join model_op on block_of_call.rank = model_op.rank and block_of_call.module_id = model_op.module_id
window
    of_call as (
        partition by block_of_call.module_id, block_of_call.call_ns
        order by block_of_call.start_ns, block_of_call.block_id
    )
order by block_of_call.block_id, model_op.path
