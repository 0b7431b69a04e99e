-- Classes of modules by time, all their modules and passes together: a model of many equal layers in a few rows.
--
-- `self` is what belongs to modules of the class and to no module in them, so self times add up; `total` includes the
-- modules in them. A module inside another of its class (a Sequential in a Sequential) is not counted twice.
--
-- :param rank BIGINT = NULL            only this rank
-- :param step BIGINT = NULL            only this step
-- :param sort VARCHAR = 'gpu_self'     order by gpu_self, gpu_total, cpu_self or cpu_total time
-- :param limit BIGINT = 10             so many rows
-- :reads module_time, model_op
-- :column type VARCHAR                 class
-- :column module_count BIGINT          modules of the class that ran; of the same path on several ranks, one
-- :column cpu_self_ns BIGINT           CPU time of the modules alone
-- :column cpu_total_ns BIGINT          CPU time with the modules in them
-- :column gpu_self_ns BIGINT           duration of GPU work of the modules alone
-- :column gpu_total_ns BIGINT          duration of GPU work with the modules in them
-- :column gpu_forward_ns BIGINT        of the total, in forward
-- :column gpu_recompute_ns BIGINT      of the total, in recomputed forward
-- :column gpu_backward_ns BIGINT       of the total, in backward
-- :column cpu_self_pct DOUBLE          share of all modules' CPU self time
-- :column gpu_self_pct DOUBLE          share of all modules' GPU self time; NULL without GPU work
with recursive above as (
    select
        rank,
        module_id,
        type,
        parent_id
    from model_op
    union all
    select
        above.rank,
        above.module_id,
        above.type,
        model_op.parent_id
    from above
    inner join model_op on above.rank = model_op.rank and above.parent_id = model_op.module_id
    where model_op.type != above.type
),

-- The way up to the root ends early at a module of the same class.
outermost as (
    select
        rank,
        module_id
    from above
    where parent_id is null
),

module as (
    select
        model_op.rank,
        model_op.module_id,
        model_op.path,
        model_op.type,
        (outermost.module_id is not null)::integer as is_outermost
    from model_op
    left join outermost on model_op.rank = outermost.rank and model_op.module_id = outermost.module_id
),

whole as (
    select
        module.type,
        count(distinct module.path) as module_count,
        sum(module_time.cpu_self_ns)::bigint as cpu_self_ns,
        sum(module_time.cpu_total_ns * module.is_outermost)::bigint as cpu_total_ns,
        sum(module_time.gpu_self_ns)::bigint as gpu_self_ns,
        sum(module_time.gpu_total_ns * module.is_outermost)::bigint as gpu_total_ns,
        sum(if(module_time.pass = 'forward', module_time.gpu_total_ns * module.is_outermost, 0))::bigint
            as gpu_forward_ns,
        sum(if(module_time.pass = 'recompute', module_time.gpu_total_ns * module.is_outermost, 0))::bigint
            as gpu_recompute_ns,
        sum(if(module_time.pass = 'backward', module_time.gpu_total_ns * module.is_outermost, 0))::bigint
            as gpu_backward_ns
    from module_time
    inner join module on module_time.rank = module.rank and module_time.module_id = module.module_id
    where ($rank is null or module_time.rank = $rank) and ($step is null or module_time.step = $step)
    group by module.type
)

select
    type,
    module_count,
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
    type
limit $limit
