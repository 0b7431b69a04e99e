-- Modules of the given model with an uncertain position among the ops, or without any.
--
-- Without `nn.Module` frames, a model is aligned with the ops. A call is doubtful if another position fits equally
-- well, and missing if no op of a pass of the model fits. The result is empty without doubtful modules, and for a trace
-- with frames.
--
-- :param rank BIGINT = NULL          only this rank
-- :reads module_doubt, model_op, module_span
-- :column rank RANK
-- :column module_id BIGINT           the module
-- :column path VARCHAR               path from the root
-- :column type VARCHAR               class of the module
-- :column call_count BIGINT          number of placed forward calls
-- :column doubtful_call_count BIGINT calls with another place that fits as well
-- :column missing_call_count BIGINT  calls without a matching op
-- :column cpu_time_ns BIGINT         CPU time of the doubtful calls, without backward
-- :column gpu_time_ns BIGINT         GPU time launched by the doubtful calls, without backward
-- :column event_id BIGINT            first op of the first doubtful call; NULL without a doubtful call
with called_module as (
    select
        rank,
        module_id,
        count(*) as call_count
    from module_span
    where pass != 'backward'
    group by rank, module_id
)

select
    module_doubt.rank,
    module_doubt.module_id,
    model_op.path,
    model_op.type,
    coalesce(called_module.call_count, 0) as call_count,
    module_doubt.doubtful_call_count,
    module_doubt.missing_call_count,
    module_doubt.cpu_ns as cpu_time_ns,
    module_doubt.gpu_ns as gpu_time_ns,
    module_doubt.event_id
from module_doubt
inner join model_op on module_doubt.rank = model_op.rank and module_doubt.module_id = model_op.module_id
left join called_module on module_doubt.rank = called_module.rank and module_doubt.module_id = called_module.module_id
where is_asked($rank, module_doubt.rank)
order by module_doubt.rank, module_doubt.module_id
