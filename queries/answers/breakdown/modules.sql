-- The model as a tree: time of each module alone and with its submodules, per pass, on the CPU and the GPU.
--
-- `self` is the time of the module alone; `total` adds all submodules. CPU time includes waiting and python. A pass
-- without events of the module and its submodules has no row.
--
-- :param rank BIGINT = NULL       only this rank
-- :param step BIGINT = NULL       only this step
-- :reads module_time, gpu_event, model_op, module_span, step
-- :column rank RANK
-- :column module_id BIGINT        position in execution order, parents first
-- :column parent_id BIGINT        parent module; NULL for a root
-- :column depth BIGINT            number of modules around the module
-- :column path VARCHAR            path from the root
-- :column type VARCHAR            class of the module
-- :column pass VARCHAR            forward, backward or recompute
-- :column call_count BIGINT       calls; for backward, runs of the module's own nodes (0 if only submodules have nodes)
-- :column cpu_self_ns BIGINT      CPU time of the module alone
-- :column cpu_total_ns BIGINT     CPU time with submodules
-- :column gpu_self_ns BIGINT      duration of the module's own GPU work
-- :column gpu_total_ns BIGINT     duration of GPU work with submodules
-- :column gpu_total_pct DOUBLE    share of the rank's GPU time over all modules, passes and buckets; NULL without GPU
--                                 work
-- :column example_event_id BIGINT the module's longest own event in the pass, a GPU event if possible; NULL if only
--                                 submodules have events

-- one row per module and pass: the sum over the selected steps
with module_total as (
    select
        rank,
        module_id,
        pass,
        sum(cpu_self_ns)::bigint as cpu_self_ns,
        sum(cpu_total_ns)::bigint as cpu_total_ns,
        sum(gpu_self_ns)::bigint as gpu_self_ns,
        sum(gpu_total_ns)::bigint as gpu_total_ns,
        max(longest_own(rank, longest_id, longest_ns, longest_is_gpu)) as longest
    from module_time
    where is_asked($rank, rank) and is_asked($step, step)
    group by rank, module_id, pass
),

-- one row per module and pass: the number of calls starting in the selected step
called_module as (
    select
        module_span.rank,
        module_span.module_id,
        module_span.pass,
        count(*) as call_count
    from module_span
    asof left join step on module_span.rank = step.rank and module_span.start_ns >= step.start_ns
    where $step is null or (step.step = $step and module_span.start_ns < step.end_ns)
    group by module_span.rank, module_span.module_id, module_span.pass
),

-- one row per rank: the duration of all GPU work
gpu_time as (
    select
        rank,
        sum(dur_ns) as gpu_ns
    from gpu_event
    where is_asked($rank, rank) and is_asked($step, step)
    group by rank
)

select
    model_op.rank,
    model_op.module_id,
    model_op.parent_id,
    model_op.depth,
    model_op.path,
    model_op.type,
    module_total.pass,
    coalesce(called_module.call_count, 0) as call_count,
    module_total.cpu_self_ns,
    module_total.cpu_total_ns,
    module_total.gpu_self_ns,
    module_total.gpu_total_ns,
    100.0 * module_total.gpu_total_ns / nullif(gpu_time.gpu_ns, 0) as gpu_total_pct,
    -module_total.longest.minus_event_id as example_event_id
from module_total
inner join model_op on module_total.rank = model_op.rank and module_total.module_id = model_op.module_id
left join called_module
    on
        module_total.rank = called_module.rank
        and module_total.module_id = called_module.module_id
        and module_total.pass = called_module.pass
left join gpu_time on module_total.rank = gpu_time.rank
order by model_op.rank, model_op.module_id, list_position(['forward', 'recompute', 'backward'], module_total.pass)
