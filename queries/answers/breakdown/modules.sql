-- The model as a tree: each module's own time and that of all modules in it, per pass, on the CPU and on the GPU.
--
-- `self` is what belongs to the module and to no module in it; `total` adds the modules below it in the tree. CPU time
-- includes waiting and python. A pass in which a module and its children have no event has no row.
--
-- :param rank BIGINT = NULL       only this rank
-- :param step BIGINT = NULL       only this step
-- :reads module_time, event, label, model_op, module_span, step
-- :column rank BIGINT             process rank
-- :column module_id BIGINT        position in execution order, parents first
-- :column parent_id BIGINT        the module around it; NULL for a root
-- :column depth BIGINT            number of modules around it
-- :column path VARCHAR            path from the root
-- :column type VARCHAR            class
-- :column pass VARCHAR            forward, backward or recompute
-- :column call_count BIGINT       calls; for backward, runs of its nodes, 0 when only modules in it have some
-- :column cpu_self_ns BIGINT      CPU time of the module alone
-- :column cpu_total_ns BIGINT     CPU time with the modules in it
-- :column gpu_self_ns BIGINT      duration of GPU work of the module alone
-- :column gpu_total_ns BIGINT     duration of GPU work with the modules in it
-- :column gpu_total_pct DOUBLE    share of the rank's GPU time in all its passes and buckets; NULL without GPU work
-- :column example_event_id BIGINT the longest event of its own in the pass, of GPU work if it launched any; NULL where
--                                 only modules in it have events
with whole as (
    select
        rank,
        module_id,
        pass,
        sum(cpu_self_ns)::bigint as cpu_self_ns,
        sum(cpu_total_ns)::bigint as cpu_total_ns,
        sum(gpu_self_ns)::bigint as gpu_self_ns,
        sum(gpu_total_ns)::bigint as gpu_total_ns
    from module_time
    where is_asked($rank, rank) and is_asked($step, step)
    group by rank, module_id, pass
),

called as (
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

gpu_time as (
    select
        event.rank,
        sum(event.dur_ns) as gpu_ns
    from event
    inner join label on event.rank = label.rank and event.event_id = label.event_id
    where
        event.category in ('kernel', 'gpu_memcpy', 'gpu_memset')
        and is_asked($step, label.step)
    group by event.rank
)

select
    model_op.rank,
    model_op.module_id,
    model_op.parent_id,
    model_op.depth,
    model_op.path,
    model_op.type,
    whole.pass,
    coalesce(called.call_count, 0) as call_count,
    whole.cpu_self_ns,
    whole.cpu_total_ns,
    whole.gpu_self_ns,
    whole.gpu_total_ns,
    100.0 * whole.gpu_total_ns / nullif(gpu_time.gpu_ns, 0) as gpu_total_pct,
    -own.longest.minus_event_id as example_event_id
from whole
inner join model_op on whole.rank = model_op.rank and whole.module_id = model_op.module_id
left join called
    on whole.rank = called.rank and whole.module_id = called.module_id and whole.pass = called.pass
left join gpu_time on whole.rank = gpu_time.rank
left join longest_in_module('label', 'event', $rank, $step) as own
    on whole.rank = own.rank and whole.module_id = own.module_id and whole.pass = own.pass
order by model_op.rank, model_op.module_id, list_position(['forward', 'recompute', 'backward'], whole.pass)
