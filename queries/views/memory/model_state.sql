-- Parameters and optimizer state by module: how large they are by the model's table, not by allocations.
--
-- They are older than the trace, so no allocation tells of them. Where the modules of a placed model say how large
-- their parameters are, each module has its own; where only the table that a capture stored in the trace does, the
-- model is one row. Without either, shapes tell of those that are trained (`estimated_memory`). The optimizer's state
-- is what its class keeps for each number (`state_copies`), where an annotation of torch's names one class. SGD keeps
-- one if it has momentum: then it multiplies in place, which it does not without (torch/optim/sgd.py).
--
-- :reads model_op, rank_info, name_info, estimated_memory, event
-- :column rank BIGINT          process rank
-- :column module_path VARCHAR  the module; NULL for the whole model
-- :column type VARCHAR         its class; NULL for the whole model
-- :column category VARCHAR     parameter or optimizer_state
-- :column evidence VARCHAR     model_table, gradient_shapes or optimizer_class
-- :column bytes BIGINT         its size
with child_size as (
    select
        rank,
        parent_id,
        sum(param_bytes)::bigint as param_bytes
    from model_op
    where parent_id is not null and param_bytes > 0
    group by rank, parent_id
),

-- Modules with their own parameters, and whether the sizes of a model make sense: parameters that two modules share
-- count to both, and once to the module around.
own_size as (
    select
        model_op.rank,
        model_op.path,
        model_op.type,
        model_op.parent_id,
        model_op.param_bytes,
        model_op.param_bytes - coalesce(child_size.param_bytes, 0) as own_bytes,
        min(own_bytes) over (partition by model_op.rank) >= 0 as adds_up
    from model_op
    left join child_size on model_op.rank = child_size.rank and model_op.module_id = child_size.parent_id
    where model_op.param_bytes >= 0
),

-- The table that a capture stored, where no module of the run has a size.
stored_module as (
    select
        rank,
        unnest(
            json_transform(
                metadata, '{"hotline_model": {"modules": [{"parent_id": "BIGINT", "param_bytes": "BIGINT"}]}}'
            )
            .hotline_model.modules
        ) as module
    from rank_info
    where rank not in (select rank from model_op where param_bytes is not null)
),

parameter as (
    select
        rank,
        path as module_path,
        type,
        if(adds_up, own_bytes, param_bytes) as bytes,
        'model_table' as evidence
    from own_size
    where if(adds_up, own_bytes > 0, parent_id is null and param_bytes > 0)
    union all
    select
        rank,
        null,
        null,
        module.param_bytes,
        'model_table'
    from stored_module
    where module.parent_id is null and module.param_bytes > 0
    union all
    select
        estimated_memory.rank,
        module.path,
        module.type,
        estimated_memory.bytes,
        'gradient_shapes'
    from estimated_memory
    left join model_op as module
        on estimated_memory.rank = module.rank and estimated_memory.module_id = module.module_id
    where
        estimated_memory.category = 'parameter'
        and estimated_memory.rank not in (select rank from model_op where param_bytes is not null)
        and estimated_memory.rank not in (select rank from stored_module where module.param_bytes > 0)
),

sgd_step as (
    select
        rank,
        track_id,
        start_ns,
        end_ns
    from event
    where name = 'Optimizer.step#SGD.step'
),

-- Ranks whose SGD has momentum.
sgd_with_momentum as (
    select distinct product.rank
    from event as product
    asof inner join sgd_step
        on
            product.rank = sgd_step.rank
            and product.track_id = sgd_step.track_id
            and product.start_ns >= sgd_step.start_ns
    where product.name in ('aten::mul_', 'aten::_foreach_mul_') and product.start_ns < sgd_step.end_ns
),

optimizer as (
    select
        rank,
        coalesce(
            any_value(state_copies(regexp_extract(name, '^Optimizer\.step#(\w+)\.step$', 1))),
            case
                when any_value(name) = 'Optimizer.step#SGD.step' and rank in (select rank from sgd_with_momentum) then 1
            end
        ) as copies
    from name_info
    where regexp_matches(name, '^Optimizer\.step#\w+\.step$')
    group by rank
    having count(distinct name) = 1
)

select
    rank,
    module_path,
    type,
    'parameter' as category,
    evidence,
    bytes
from parameter
union all
select
    parameter.rank,
    parameter.module_path,
    parameter.type,
    'optimizer_state',
    'optimizer_class',
    optimizer.copies * parameter.bytes
from parameter
inner join optimizer on parameter.rank = optimizer.rank
where optimizer.copies > 0
