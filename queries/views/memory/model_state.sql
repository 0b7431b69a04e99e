-- Parameters and optimizer state by module: how large they are by the model's table, not by allocations.
--
-- They are older than the trace, so no allocation tells of them. Where the modules of a placed model say how large
-- their parameters are, each module has its own; where only the table that a capture stored in the trace does, the
-- model is one row. The optimizer's state is what its class keeps for each number (`state_copies`), where an annotation
-- of torch's names one class.
--
-- :reads model_op, rank_info, name_info
-- :column rank BIGINT          process rank
-- :column module_path VARCHAR  the module; NULL for the whole model
-- :column type VARCHAR         its class; NULL for the whole model
-- :column category VARCHAR     parameter or optimizer_state
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
        if(adds_up, own_bytes, param_bytes) as bytes
    from own_size
    where if(adds_up, own_bytes > 0, parent_id is null and param_bytes > 0)
    union all
    select
        rank,
        null,
        null,
        module.param_bytes
    from stored_module
    where module.parent_id is null and module.param_bytes > 0
),

optimizer as (
    select
        rank,
        any_value(state_copies(regexp_extract(name, '^Optimizer\.step#(\w+)\.step$', 1))) as copies
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
    bytes
from parameter
union all
select
    parameter.rank,
    parameter.module_path,
    parameter.type,
    'optimizer_state',
    optimizer.copies * parameter.bytes
from parameter
inner join optimizer on parameter.rank = optimizer.rank
where optimizer.copies > 0
