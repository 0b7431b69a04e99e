-- What each module saves for backward, and how long it takes to compute that again: which to checkpoint first.
--
-- `torch.utils.checkpoint` drops what a module saves but its output, which is the input of what follows, and runs its
-- forward again in backward. The best candidates have the most bytes per millisecond, as in ECHO (Zheng et al., ISCA
-- 2020). ECHO runs matrix products again only where their result is not needed itself (`has_matrix_op`); random ops
-- have to run again with the same numbers, as torch does by default (`is_random`). A module and the ones in it are
-- candidates each: take one or the other, and `recomputation` for the best of both. All numbers are means per step.
-- Needs `profile_memory`, and modules.
--
-- :param rank BIGINT = NULL        only this rank
-- :param step BIGINT = NULL        only this step
-- :param module VARCHAR = NULL     only this module and those in it, by path
-- :param limit BIGINT >= 0 = 20    so many rows
-- :reads memory_block, model_op, module_ancestor, module_span, module_time, annotated_event, step, gpu_op
-- :column rank BIGINT              process rank
-- :column module_path VARCHAR      the module
-- :column type VARCHAR             its class
-- :column saved_bytes BIGINT       what it and the modules in it save for backward
-- :column output_bytes BIGINT      of this, the largest block of the last op of each call: its output, which
--                                  stays
-- :column net_bytes BIGINT         what is saved less; the effect on the peak may be smaller
-- :column forward_ns BIGINT        time of its forward, on the GPU if there is one
-- :column bytes_per_ms DOUBLE      net bytes per millisecond; NULL where forward takes no time
-- :column has_matrix_op BOOLEAN    a matrix product, convolution or attention is in it
-- :column is_random BOOLEAN        random numbers are drawn in it
with asked_step as (
    select
        rank,
        count(*) as step_count
    from step
    where is_asked($rank, rank) and is_asked($step, step)
    group by rank
),

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

-- Each with the call of the module that allocated it.
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

-- What each op of a call saves: a result, and what its backward needs beside it.
saved_of_op as (
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

saved_of_call as (
    select
        rank,
        module_id,
        call_ns,
        sum(saved_bytes) as saved_bytes,
        arg_max(largest_bytes, (last_ns, op_id)) as output_bytes
    from saved_of_op
    group by rank, module_id, call_ns
),

saved as (
    select
        rank,
        module_id,
        sum(saved_bytes) as saved_bytes,
        sum(output_bytes) as output_bytes
    from saved_of_call
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

-- What the ops of each module are.
kind_of_op as (
    select
        annotated_event.rank,
        module_ancestor.ancestor_id as module_id,
        bool_or(regexp_matches(annotated_event.name, '^aten::(addmm|mm|bmm|baddbmm|convolution|_?scaled_dot_product)'))
            as has_matrix_op,
        bool_or(regexp_matches(annotated_event.name, '^aten::(native_dropout|bernoulli|rand|normal|_fused_dropout)'))
            as is_random
    from annotated_event
    inner join module_ancestor
        on annotated_event.rank = module_ancestor.rank and annotated_event.module_id = module_ancestor.module_id
    where annotated_event.category = 'cpu_op' and annotated_event.pass = 'forward'
    group by annotated_event.rank, module_ancestor.ancestor_id
),

candidate as (
    select
        saved.rank,
        model_op.path as module_path,
        model_op.type,
        (saved.saved_bytes // asked_step.step_count)::bigint as saved_bytes,
        (saved.output_bytes // asked_step.step_count)::bigint as output_bytes,
        ((saved.saved_bytes - saved.output_bytes) // asked_step.step_count)::bigint as net_bytes,
        (
            if(saved.rank in (select rank from gpu_op), forward_time.gpu_ns, forward_time.cpu_ns)
            // asked_step.step_count
        )::bigint as forward_ns,
        coalesce(kind_of_op.has_matrix_op, false) as has_matrix_op,
        coalesce(kind_of_op.is_random, false) as is_random
    from saved
    inner join asked_step on saved.rank = asked_step.rank
    inner join model_op on saved.rank = model_op.rank and saved.module_id = model_op.module_id
    left join forward_time on saved.rank = forward_time.rank and saved.module_id = forward_time.module_id
    left join kind_of_op on saved.rank = kind_of_op.rank and saved.module_id = kind_of_op.module_id
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
