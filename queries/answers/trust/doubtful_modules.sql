-- Modules of the given model that were placed on the ops with doubt, or could not be placed.
--
-- Without `nn.Module` frames, a model is aligned with the ops. A call is doubtful if another place fits as well, and
-- missing if no op of a pass of the model fits. Empty where nothing is in doubt, and where the trace has frames.
--
-- :param rank BIGINT = NULL          only this rank
-- :reads module_doubt, model_op, module_span
-- :column rank BIGINT                process rank
-- :column module_id BIGINT           the module
-- :column path VARCHAR               path from the root
-- :column type VARCHAR               class
-- :column call_count BIGINT          forward calls that were placed
-- :column doubtful_call_count BIGINT calls with another place that fits as well
-- :column missing_call_count BIGINT  calls for which no op was found
-- :column cpu_time_ns BIGINT         CPU time of the doubtful calls, without backward
-- :column gpu_time_ns BIGINT         GPU time of what the doubtful calls launched, without backward
-- :column event_id BIGINT            first op of the first doubtful call; NULL without one
with called as (
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
    coalesce(called.call_count, 0) as call_count,
    module_doubt.doubtful_call_count,
    module_doubt.missing_call_count,
    module_doubt.cpu_ns as cpu_time_ns,
    module_doubt.gpu_ns as gpu_time_ns,
    module_doubt.event_id
from module_doubt
inner join model_op on module_doubt.rank = model_op.rank and module_doubt.module_id = model_op.module_id
left join called on module_doubt.rank = called.rank and module_doubt.module_id = called.module_id
where is_asked($rank, module_doubt.rank)
order by module_doubt.rank, module_doubt.module_id
