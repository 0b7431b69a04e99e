-- Memory saved for backward by each module, and its forward time: which module to checkpoint first.
--
-- `torch.utils.checkpoint` drops all saved tensors of a module except its output (the input of the next module) and
-- runs the forward again in backward. The best candidates have the most bytes per millisecond, as in ECHO (Zheng et
-- al., ISCA 2020). ECHO repeats matrix products only if their result is not needed itself (`has_matrix_op`). Random ops
-- must repeat with the same numbers, as torch does by default (`is_random`).
--
-- A module and its submodules are separate candidates: choose one of them, or use `recomputation` for the best
-- combination. All numbers are means per step. Needs `profile_memory`, and modules.
--
-- :param rank BIGINT = NULL        only this rank
-- :param step BIGINT = NULL        only this step
-- :param module VARCHAR = NULL     only this module and its submodules, by path
-- :param limit BIGINT >= 0 = 20    maximum number of rows
-- :reads memory_block, model_op, module_ancestor, module_span, module_time, cpu_event, step, gpu_event
-- :column rank RANK
-- :column module_path VARCHAR      path of the module
-- :column type VARCHAR             class of the module
-- :column saved_bytes BIGINT       bytes saved for backward by the module and its submodules
-- :column output_bytes BIGINT      bytes of the outputs (the largest block of the last op of each call), which stay in
--                                  memory
-- :column net_bytes BIGINT         bytes no longer saved; the effect on the peak may be smaller
-- :column forward_ns BIGINT        time of the forward, on the GPU if the rank has GPU work
-- :column bytes_per_ms DOUBLE      net bytes per millisecond; NULL if forward takes no time
-- :column has_matrix_op BOOLEAN    the module contains a matrix product, convolution or attention
-- :column is_random BOOLEAN        the module draws random numbers
with asked_step as (
    select
        rank,
        count(*) as step_count
    from step
    where is_asked($rank, rank) and is_asked($step, step)
    group by rank
),

-- one row per saved block and module around it
saved_block as (
    select
        memory_block.rank,
        module_ancestor.ancestor_id as module_id,
        memory_block.block_id,
        memory_block.bytes,
        memory_block.start_ns,
        coalesce(memory_block.op_id, -memory_block.block_id) as op_id
    from memory_block
    inner join module_ancestor
        on memory_block.rank = module_ancestor.rank and memory_block.module_id = module_ancestor.module_id
    where
        memory_block.evidence = 'forward_to_backward'
        and memory_block.step is not null
        and is_asked($rank, memory_block.rank)
        and is_asked($step, memory_block.step)
),

forward_span as (
    select * from module_span
    where pass = 'forward'
),

-- One row per saved block, with the allocating module call.
block_of_call as (
    select
        saved_block.*,
        forward_span.start_ns as call_ns
    from saved_block
    asof left join forward_span
        on
            saved_block.rank = forward_span.rank
            and saved_block.module_id = forward_span.module_id
            and saved_block.start_ns >= forward_span.start_ns
),

-- Saved bytes of each op in a call: the result, and other tensors needed by its backward.
op_memory as (
    select
        rank,
        module_id,
        call_ns,
        op_id,
        sum(bytes) as saved_bytes,
        max(bytes) as largest_bytes,
        max(start_ns) as last_ns
    from block_of_call
    group by rank, module_id, call_ns, op_id
),

call_memory as (
    select
        rank,
        module_id,
        call_ns,
        sum(saved_bytes) as saved_bytes,
        arg_max(largest_bytes, (last_ns, op_id)) as output_bytes
    from op_memory
    group by rank, module_id, call_ns
),

module_memory as (
    select
        rank,
        module_id,
        sum(saved_bytes) as saved_bytes,
        sum(output_bytes) as output_bytes
    from call_memory
    group by rank, module_id
),

forward_time as (
    select
        rank,
        module_id,
        sum(cpu_total_ns) as cpu_ns,
        sum(gpu_total_ns) as gpu_ns
    from module_time
    where pass = 'forward' and step is not null and is_asked($step, step)
    group by rank, module_id
),

-- One row per module: whether its ops are matrix ops or random.
module_kind as (
    select
        cpu_event.rank,
        module_ancestor.ancestor_id as module_id,
        bool_or(is_costly_op(cpu_event.name)) as has_matrix_op,
        bool_or(is_random_op(cpu_event.name)) as is_random
    from cpu_event
    inner join module_ancestor
        on cpu_event.rank = module_ancestor.rank and cpu_event.module_id = module_ancestor.module_id
    where cpu_event.category = 'cpu_op' and cpu_event.pass = 'forward'
    group by cpu_event.rank, module_ancestor.ancestor_id
),

-- one row per module, with all values per step
candidate as (
    select
        module_memory.rank,
        model_op.path as module_path,
        model_op.type,
        (module_memory.saved_bytes // asked_step.step_count)::bigint as saved_bytes,
        (module_memory.output_bytes // asked_step.step_count)::bigint as output_bytes,
        ((module_memory.saved_bytes - module_memory.output_bytes) // asked_step.step_count)::bigint as net_bytes,
        (
            if(module_memory.rank in (select rank from gpu_event), forward_time.gpu_ns, forward_time.cpu_ns)
            // asked_step.step_count
        )::bigint as forward_ns,
        coalesce(module_kind.has_matrix_op, false) as has_matrix_op,
        coalesce(module_kind.is_random, false) as is_random
    from module_memory
    inner join asked_step on module_memory.rank = asked_step.rank
    inner join model_op on module_memory.rank = model_op.rank and module_memory.module_id = model_op.module_id
    left join forward_time
        on module_memory.rank = forward_time.rank and module_memory.module_id = forward_time.module_id
    left join module_kind on module_memory.rank = module_kind.rank and module_memory.module_id = module_kind.module_id
)

select
    rank,
    module_path,
    type,
    saved_bytes,
    output_bytes,
    net_bytes,
    forward_ns,
    1e6 * net_bytes / nullif(forward_ns, 0) as bytes_per_ms,
    has_matrix_op,
    is_random
from candidate
where net_bytes > 0 and in_module(module_path, $module)
order by bytes_per_ms desc nulls last, net_bytes desc, rank, module_path
limit $limit
