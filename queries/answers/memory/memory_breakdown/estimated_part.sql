-- Estimated permanent memory of the model: parameters, gradients and optimizer state.
--
-- :takes by
-- :reads estimated_rank, estimated_memory, model_state, model_op
-- :column rank RANK
-- :column device_type VARCHAR  cuda or cpu
-- :column device DEVICE        -1 for the CPU
-- :column category VARCHAR     parameter, gradient or optimizer_state
-- :column evidence VARCHAR     source of the estimate
-- :column place VARCHAR        module or class; NULL if unknown
-- :column module_path VARCHAR  module; NULL if unknown
-- :column bytes BIGINT         size

-- one row per parameter, gradient or optimizer state of a module
with held_part as (
    select
        rank,
        category,
        evidence,
        type,
        module_path,
        bytes
    from model_state
    union all
    select
        estimated_memory.rank,
        'gradient',
        'gradient_shapes',
        model_op.type,
        model_op.path,
        estimated_memory.bytes
    from estimated_memory
    left join model_op
        on estimated_memory.rank = model_op.rank and estimated_memory.module_id = model_op.module_id
    where estimated_memory.category = 'parameter'
)

select
    estimated_rank.rank,
    estimated_rank.device_type,
    estimated_rank.device,
    held_part.category,
    held_part.evidence,
    case $by when 'module' then held_part.module_path when 'type' then held_part.type end as place,
    held_part.module_path,
    held_part.bytes
from held_part
inner join estimated_rank on held_part.rank = estimated_rank.rank
