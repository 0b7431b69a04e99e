-- What light ops save for backward and could compute again, in groups that share what has to be kept for it.
--
-- To compute a result again, its op has to be given the same again. What is not saved anyway comes from other light
-- ops, or has to be kept (`kept_bytes`). Ops that need the same block share it: alone, none of them may save more than
-- it has to keep, and together they do. That is the rule of Echo (Zheng et al., ISCA 2020): what is new must be no more
-- than what is old, over all ops that belong together. Products, convolutions and attention never run again. A group
-- shares its largest block to keep, or is the results of one op; a row is all groups of a module with the same ops, per
-- step, and only where they save more than they keep. What an op is given is found by size, as tensors have no names.
--
-- Whole modules, which may hold products, are in `recompute`. Needs `profile_memory` and `record_shapes`.
--
-- :param rank BIGINT = NULL        only this rank
-- :param step BIGINT = NULL        only this step
-- :param module VARCHAR = NULL     only what is saved in this module or one in it, by path
-- :param limit BIGINT >= 0 = 20    so many rows
-- :reads made_block, needed_block, op_time, model_op, step
-- :column rank BIGINT              process rank
-- :column module_path VARCHAR      module of the first op; NULL where none is known
-- :column ops VARCHAR              ops that run again, in order of the alphabet
-- :column group_count BIGINT       groups, in all steps that are asked for
-- :column result_count BIGINT      results that are not saved any more, likewise
-- :column alone_count BIGINT       of them, those that would save more than they keep by themselves
-- :column saved_bytes BIGINT       what the results take, per step
-- :column kept_bytes BIGINT        what has to be kept instead, per step
-- :column net_bytes BIGINT         the difference
-- :column forward_ns BIGINT        time of the ops that run again, on the GPU if there is one, per step
-- :column bytes_per_ms DOUBLE      net bytes per millisecond; NULL where the ops take no time
-- :column is_random BOOLEAN        random numbers are drawn in one of them
with asked_step as (
    select
        rank,
        count(*) as step_count
    from step
    where is_asked($rank, rank) and is_asked($step, step)
    group by rank
),

-- Saved blocks, each with what has to be kept for it, and the largest of that.
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

saved_of_group as (
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

-- Blocks that a group takes, each once.
needed_of_group as (
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

kept_of_group as (
    select
        needed_of_group.rank,
        needed_of_group.group_id,
        sum(made_block.bytes) as kept_bytes
    from needed_of_group
    inner join made_block
        on needed_of_group.rank = made_block.rank and needed_of_group.block_id = made_block.block_id
    where needed_of_group.is_kept
    group by needed_of_group.rank, needed_of_group.group_id
),

-- An op may have several of the blocks.
op_of_group as (
    select distinct
        needed_of_group.rank,
        needed_of_group.group_id,
        made_block.op_id
    from needed_of_group
    inner join made_block
        on needed_of_group.rank = made_block.rank and needed_of_group.block_id = made_block.block_id
    where needed_of_group.is_computed
),

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

group_in_module as (
    select
        saved_of_group.rank,
        model_op.path as module_path,
        time_of_group.ops,
        count(*) as group_count,
        sum(saved_of_group.result_count)::bigint as result_count,
        sum(saved_of_group.alone_count)::bigint as alone_count,
        (sum(saved_of_group.saved_bytes) // any_value(asked_step.step_count))::bigint as saved_bytes,
        (sum(coalesce(kept_of_group.kept_bytes, 0)) // any_value(asked_step.step_count))::bigint as kept_bytes,
        (sum(time_of_group.time_ns) // any_value(asked_step.step_count))::bigint as forward_ns,
        bool_or(time_of_group.is_random) as is_random
    from saved_of_group
    inner join asked_step on saved_of_group.rank = asked_step.rank
    inner join time_of_group
        on saved_of_group.rank = time_of_group.rank and saved_of_group.group_id = time_of_group.group_id
    left join kept_of_group
        on saved_of_group.rank = kept_of_group.rank and saved_of_group.group_id = kept_of_group.group_id
    left join model_op on saved_of_group.rank = model_op.rank and saved_of_group.module_id = model_op.module_id
    where saved_of_group.saved_bytes > coalesce(kept_of_group.kept_bytes, 0)
    group by saved_of_group.rank, model_op.path, time_of_group.ops
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
