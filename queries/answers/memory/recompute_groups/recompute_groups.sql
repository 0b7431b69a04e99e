-- Results of light ops saved for backward that could be recomputed, in groups sharing the blocks to keep.
--
-- Recomputing a result needs the same inputs. Unsaved inputs are recomputed by other light ops, or must be kept
-- (`kept_bytes`). Ops needing the same block share its cost: one op alone may save less than it has to keep, but
-- several together can gain. This is the rule of Echo (Zheng et al., ISCA 2020): over all ops of a group, the kept
-- bytes must not exceed the saved bytes. Products, convolutions and attention are never repeated.
--
-- A group shares its largest block to keep, or has the results of one op. A row combines all groups of a module with
-- the same ops, per step, if they save more than they keep. Inputs are matched by size, since tensors have no names.
--
-- `recompute` covers whole modules, which may contain products. Needs `profile_memory` and `record_shapes`.
--
-- :param rank BIGINT = NULL        only this rank
-- :param step BIGINT = NULL        only this step
-- :param module VARCHAR = NULL     only memory saved in this module or its submodules, by path
-- :param limit BIGINT >= 0 = 20    maximum number of rows
-- :reads made_block, needed_block, op_time, model_op, step
-- :column rank RANK
-- :column module_path VARCHAR      module of the first op; NULL if unknown
-- :column ops VARCHAR              ops to repeat, in alphabetical order
-- :column group_count BIGINT       number of groups in all selected steps
-- :column result_count BIGINT      number of results no longer saved, in all selected steps
-- :column alone_count BIGINT       number of results saving more than they keep on their own
-- :column saved_bytes BIGINT       size of these results, per step
-- :column kept_bytes BIGINT        bytes that must be kept instead, per step
-- :column net_bytes BIGINT         saved minus kept bytes
-- :column forward_ns BIGINT        time of the repeated ops per step, on the GPU if the rank has GPU work
-- :column bytes_per_ms DOUBLE      net bytes per millisecond; NULL if the ops take no time
-- :column is_random BOOLEAN        a repeated op draws random numbers
with asked_step as (
    select
        rank,
        count(*) as step_count
    from step
    where is_asked($rank, rank) and is_asked($step, step)
    group by rank
),

-- One row per saved block, with the bytes to keep for its recomputation and the largest block to keep.
candidate as (
    select
        needed_block.rank,
        needed_block.saved_id,
        coalesce(sum(needed.bytes) filter (where needed_block.is_kept), 0) as kept_bytes,
        coalesce(
            arg_max(needed.block_id, (needed.bytes, -needed.block_id)) filter (where needed_block.is_kept),
            -any_value(saved.op_id)
        ) as group_id
    from needed_block
    inner join made_block as needed
        on needed_block.rank = needed.rank and needed_block.block_id = needed.block_id
    inner join made_block as saved
        on needed_block.rank = saved.rank and needed_block.saved_id = saved.block_id
    group by needed_block.rank, needed_block.saved_id
),

-- one row per group: its saved results
saving_of_group as (
    select
        candidate.rank,
        candidate.group_id,
        arg_min(made_block.module_id, made_block.start_ns) as module_id,
        count(*) as result_count,
        count(*) filter (where made_block.bytes > candidate.kept_bytes) as alone_count,
        sum(made_block.bytes) as saved_bytes
    from candidate
    inner join made_block on candidate.rank = made_block.rank and candidate.saved_id = made_block.block_id
    group by candidate.rank, candidate.group_id
),

-- Blocks needed by a group, without duplicates.
block_of_group as (
    select
        candidate.rank,
        candidate.group_id,
        needed_block.block_id,
        bool_or(needed_block.is_computed) as is_computed,
        bool_or(needed_block.is_kept) as is_kept
    from candidate
    inner join needed_block on candidate.rank = needed_block.rank and candidate.saved_id = needed_block.saved_id
    group by candidate.rank, candidate.group_id, needed_block.block_id
),

-- one row per group: the bytes to keep
cost_of_group as (
    select
        block_of_group.rank,
        block_of_group.group_id,
        sum(made_block.bytes) as kept_bytes
    from block_of_group
    inner join made_block
        on block_of_group.rank = made_block.rank and block_of_group.block_id = made_block.block_id
    where block_of_group.is_kept
    group by block_of_group.rank, block_of_group.group_id
),

-- Ops of a group, without duplicates: an op may allocate several of the blocks.
op_of_group as (
    select distinct
        block_of_group.rank,
        block_of_group.group_id,
        made_block.op_id
    from block_of_group
    inner join made_block
        on block_of_group.rank = made_block.rank and block_of_group.block_id = made_block.block_id
    where block_of_group.is_computed
),

-- one row per group: its ops and their time
time_of_group as (
    select
        op_of_group.rank,
        op_of_group.group_id,
        string_agg(distinct op_time.name, ', ' order by op_time.name) as ops,
        sum(op_time.time_ns) as time_ns,
        bool_or(contains(op_time.name, 'dropout')) as is_random
    from op_of_group
    inner join op_time on op_of_group.rank = op_time.rank and op_of_group.op_id = op_time.op_id
    group by op_of_group.rank, op_of_group.group_id
),

-- one row per module and set of ops: the groups with a gain
group_in_module as (
    select
        saving_of_group.rank,
        model_op.path as module_path,
        time_of_group.ops,
        count(*) as group_count,
        sum(saving_of_group.result_count)::bigint as result_count,
        sum(saving_of_group.alone_count)::bigint as alone_count,
        (sum(saving_of_group.saved_bytes) // any_value(asked_step.step_count))::bigint as saved_bytes,
        (sum(coalesce(cost_of_group.kept_bytes, 0)) // any_value(asked_step.step_count))::bigint as kept_bytes,
        (sum(time_of_group.time_ns) // any_value(asked_step.step_count))::bigint as forward_ns,
        bool_or(time_of_group.is_random) as is_random
    from saving_of_group
    inner join asked_step on saving_of_group.rank = asked_step.rank
    inner join time_of_group
        on saving_of_group.rank = time_of_group.rank and saving_of_group.group_id = time_of_group.group_id
    left join cost_of_group
        on saving_of_group.rank = cost_of_group.rank and saving_of_group.group_id = cost_of_group.group_id
    left join model_op on saving_of_group.rank = model_op.rank and saving_of_group.module_id = model_op.module_id
    where saving_of_group.saved_bytes > coalesce(cost_of_group.kept_bytes, 0)
    group by saving_of_group.rank, model_op.path, time_of_group.ops
)

select
    rank,
    module_path,
    ops,
    group_count,
    result_count,
    alone_count,
    saved_bytes,
    kept_bytes,
    saved_bytes - kept_bytes as net_bytes,
    forward_ns,
    1e6 * (saved_bytes - kept_bytes) / nullif(forward_ns, 0) as bytes_per_ms,
    is_random
from group_in_module
where in_module(module_path, $module)
order by bytes_per_ms desc nulls last, net_bytes desc, rank, module_path nulls last, ops
limit $limit
