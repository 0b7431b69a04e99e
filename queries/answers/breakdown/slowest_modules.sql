-- Modules, or module types, by time over all passes. Grouping by type shortens a model of many equal layers.
--
-- `self` is the time of the module alone, and self times add up. `total` includes submodules. By type, a module inside
-- another module of its type (a Sequential in a Sequential) is not counted twice.
--
-- :param by VARCHAR in (path, type) = 'path'
--                                 `path`: one row per module; `type`: one row per module type
-- :param rank BIGINT = NULL       only this rank
-- :param step BIGINT = NULL       only this step
-- :param sort VARCHAR in (gpu_self, gpu_total, cpu_self, cpu_total) = 'gpu_self'
--                                 column to order by
-- :param limit BIGINT >= 0 = 10   maximum number of rows
-- :reads module_source, module_time, model_op, module_ancestor
-- :column path VARCHAR                 path from the root; NULL if grouped by type
-- :column type VARCHAR                 class of the module in python
-- :column module_count BIGINT          modules of the type in the trace; 1 if grouped by path
-- :column source VARCHAR               file and line of the code, see `module_source`; NULL if unknown or different
--                                      between the modules
-- :column cpu_self_ns BIGINT           CPU time of the module alone
-- :column cpu_total_ns BIGINT          CPU time with submodules
-- :column gpu_self_ns BIGINT           duration of the module's own GPU work
-- :column gpu_total_ns BIGINT          duration of GPU work with submodules
-- :column gpu_forward_ns BIGINT        part of the total in forward
-- :column gpu_recompute_ns BIGINT      part of the total in recomputed forward
-- :column gpu_backward_ns BIGINT       part of the total in backward
-- :column cpu_self_pct DOUBLE          share of the CPU self time of all modules
-- :column gpu_self_pct DOUBLE          share of the GPU self time of all modules; NULL without GPU work
-- :column example_rank BIGINT          rank of the module's longest own event, a GPU event if possible
-- :column example_event_id BIGINT      the longest own event; NULL if only submodules have events

-- one row per module outside all modules of its type; empty if grouped by path
with outermost_module as (
    -- Modules without another module of their type around them.
    select
        own.rank,
        own.module_id
    from model_op as own
    inner join module_ancestor on own.rank = module_ancestor.rank and own.module_id = module_ancestor.module_id
    inner join model_op as around
        on module_ancestor.rank = around.rank and module_ancestor.ancestor_id = around.module_id
    where $by = 'type'
    group by own.rank, own.module_id
    having bool_and(coalesce(around.module_id = own.module_id or around.type != own.type, false))
),

-- one row per module, pass and step, with the totals of inner modules of the same type set to 0
module_pass as (
    select
        case when $by != 'type' then model_op.path end as path,
        model_op.type,
        model_op.path as module,
        module_source.source,
        module_time.pass,
        longest_own(
            module_time.rank, module_time.longest_id, module_time.longest_ns, module_time.longest_is_gpu
        ) as longest,
        module_time.cpu_self_ns,
        module_time.gpu_self_ns,
        if($by != 'type' or outermost_module.module_id is not null, module_time.cpu_total_ns, 0) as cpu_total_ns,
        if($by != 'type' or outermost_module.module_id is not null, module_time.gpu_total_ns, 0) as gpu_total_ns
    from module_time
    inner join model_op on module_time.rank = model_op.rank and module_time.module_id = model_op.module_id
    left join module_source
        on module_time.rank = module_source.rank and module_time.module_id = module_source.module_id
    left join outermost_module
        on module_time.rank = outermost_module.rank and module_time.module_id = outermost_module.module_id
    where is_asked($rank, module_time.rank) and is_asked($step, module_time.step)
),

-- one row per path or type: the sum over passes, steps and ranks
module_total as (
    select
        path,
        if($by = 'type', type, null) as class,
        any_value(type) as type,
        count(distinct module) as module_count,
        if(min(source) = max(source), min(source), null) as source,
        sum(cpu_self_ns)::bigint as cpu_self_ns,
        sum(cpu_total_ns)::bigint as cpu_total_ns,
        sum(gpu_self_ns)::bigint as gpu_self_ns,
        sum(gpu_total_ns)::bigint as gpu_total_ns,
        sum(if(pass = 'forward', gpu_total_ns, 0))::bigint as gpu_forward_ns,
        sum(if(pass = 'recompute', gpu_total_ns, 0))::bigint as gpu_recompute_ns,
        sum(if(pass = 'backward', gpu_total_ns, 0))::bigint as gpu_backward_ns,
        max(longest) as longest
    from module_pass
    group by path, class
)

select
    path,
    type,
    module_count,
    source,
    cpu_self_ns,
    cpu_total_ns,
    gpu_self_ns,
    gpu_total_ns,
    gpu_forward_ns,
    gpu_recompute_ns,
    gpu_backward_ns,
    100.0 * cpu_self_ns / nullif(sum(cpu_self_ns) over (), 0) as cpu_self_pct,
    100.0 * gpu_self_ns / nullif(sum(gpu_self_ns) over (), 0) as gpu_self_pct,
    -longest.minus_rank as example_rank,
    -longest.minus_event_id as example_event_id
from module_total
order by
    case $sort
        when 'gpu_total' then gpu_total_ns
        when 'cpu_self' then cpu_self_ns
        when 'cpu_total' then cpu_total_ns
        else gpu_self_ns
    end desc,
    cpu_self_ns desc,
    path,
    type
limit $limit
