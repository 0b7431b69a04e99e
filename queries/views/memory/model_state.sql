-- Parameters and optimizer state by module: sizes from the model's table, not from allocations.
--
-- Parameters are older than the trace, so the trace has no allocations for them. If the modules of a placed model have
-- sizes, each module has a row of its own. If only the table stored by a capture has sizes, the model is one row.
-- Without both, shapes give the sizes of the trained parameters (`estimated_memory`).
--
-- The optimizer state is the size of the parameters times the number of values kept per parameter by the optimizer
-- class (`state_copies`), if torch's annotations name exactly one class. SGD keeps one value, and only with momentum.
-- SGD with momentum is recognised by in-place multiplications (torch/optim/sgd.py).
--
-- :reads model_op, rank_info, name_info, estimated_memory, event
-- :column rank RANK
-- :column module_path VARCHAR  module; NULL for the whole model
-- :column type VARCHAR         class of the module; NULL for the whole model
-- :column category VARCHAR     parameter or optimizer_state
-- :column evidence VARCHAR     model_table, gradient_shapes or optimizer_class
-- :column bytes BIGINT         size in bytes
with child_size as (
    select
        rank,
        parent_id,
        sum(param_bytes)::bigint as param_bytes
    from model_op
    where parent_id is not null and param_bytes > 0
    group by rank, parent_id
),

-- Modules with the size of their own parameters, and whether the sizes add up. Parameters shared by two modules count
-- in both, but only once in the outer module.
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

-- The table stored by a capture, if no module of the run has a size.
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

-- one row per module with own parameters, or per model
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
    where optimizer_of_mark(name) = 'SGD'
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

-- one row per rank with a single optimizer class: the values kept per parameter
optimizer as (
    select
        rank,
        coalesce(
            any_value(state_copies(optimizer_of_mark(name))),
            case
                when optimizer_of_mark(any_value(name)) = 'SGD' and rank in (select rank from sgd_with_momentum) then 1
            end
        ) as copies
    from name_info
    where optimizer_of_mark(name) != ''
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
