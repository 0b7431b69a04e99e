-- Modules by time, all passes together.
--
-- `self` is what belongs to the module and to no module in it, so self times add up; `total` includes the modules in
-- it.
--
-- :param rank BIGINT = NULL            only this rank
-- :param step BIGINT = NULL            only this step
-- :param sort VARCHAR = 'gpu_self'     order by gpu_self, gpu_total, cpu_self or cpu_total time
-- :param limit BIGINT = 10             so many rows
-- :reads module_source, module_time, model_op
-- :column path VARCHAR                 path from the root
-- :column type VARCHAR                 class
-- :column source VARCHAR               file and line of its code, see `module_source`; NULL when unknown
-- :column cpu_self_ns BIGINT           CPU time of the module alone
-- :column cpu_total_ns BIGINT          CPU time with the modules in it
-- :column gpu_self_ns BIGINT           duration of GPU work of the module alone
-- :column gpu_total_ns BIGINT          duration of GPU work with the modules in it
-- :column gpu_forward_ns BIGINT        of the total, in forward
-- :column gpu_recompute_ns BIGINT      of the total, in recomputed forward
-- :column gpu_backward_ns BIGINT       of the total, in backward
-- :column cpu_self_pct DOUBLE          share of all modules' CPU self time
-- :column gpu_self_pct DOUBLE          share of all modules' GPU self time; NULL without GPU work
with whole as (
    select
        model_op.path,
        min(model_op.type) as type,
        min(module_source.source) as source,
        sum(module_time.cpu_self_ns)::bigint as cpu_self_ns,
        sum(module_time.cpu_total_ns)::bigint as cpu_total_ns,
        sum(module_time.gpu_self_ns)::bigint as gpu_self_ns,
        sum(module_time.gpu_total_ns)::bigint as gpu_total_ns,
        coalesce(sum(module_time.gpu_total_ns) filter (where module_time.pass = 'forward'), 0)::bigint
            as gpu_forward_ns,
        coalesce(sum(module_time.gpu_total_ns) filter (where module_time.pass = 'recompute'), 0)::bigint
            as gpu_recompute_ns,
        coalesce(sum(module_time.gpu_total_ns) filter (where module_time.pass = 'backward'), 0)::bigint
            as gpu_backward_ns
    from module_time
    inner join model_op on module_time.rank = model_op.rank and module_time.module_id = model_op.module_id
    left join module_source on model_op.rank = module_source.rank and model_op.module_id = module_source.module_id
    where ($rank is null or module_time.rank = $rank) and ($step is null or module_time.step = $step)
    group by model_op.path
)

select
    path,
    type,
    source,
    cpu_self_ns,
    cpu_total_ns,
    gpu_self_ns,
    gpu_total_ns,
    gpu_forward_ns,
    gpu_recompute_ns,
    gpu_backward_ns,
    100.0 * cpu_self_ns / nullif(sum(cpu_self_ns) over (), 0) as cpu_self_pct,
    100.0 * gpu_self_ns / nullif(sum(gpu_self_ns) over (), 0) as gpu_self_pct
from whole
order by
    case $sort
        when 'gpu_total' then gpu_total_ns
        when 'cpu_self' then cpu_self_ns
        when 'cpu_total' then cpu_total_ns
        else gpu_self_ns
    end desc,
    cpu_self_ns desc,
    path
limit $limit
