-- Time of each module per step and pass, alone and with the modules in it.
--
-- Time of each module per step and pass: its own, and with that of all modules in it.
--
-- Own time is that of the events labelled with the module: self time on the CPU, duration on the GPU. Totals add the
-- modules below it in the tree, so a module without events of its own has a row if one in it has some. A kernel that
-- serves several modules counts to each with its part.
--
-- :reads label, timed, nesting, model_op, shared_kernel
-- :column step BIGINT          the step; NULL outside every step
-- :column module_id BIGINT     the module
-- :column pass VARCHAR         forward, backward or recompute
-- :column cpu_self_ns BIGINT   CPU self time of its events
-- :column cpu_total_ns BIGINT  the same with all modules below it
-- :column gpu_self_ns BIGINT   duration of the GPU work that is its own
-- :column gpu_total_ns BIGINT  the same with all modules below it
with recursive part_of as (
    select
        module_id,
        module_id as whole_id
    from model_op
    union all
    select
        part_of.module_id,
        model_op.parent_id
    from part_of
    inner join model_op on part_of.whole_id = model_op.module_id
    where model_op.parent_id is not null
),

spent as (
    select
        event_id,
        self_ns as cpu_ns,
        0::bigint as gpu_ns
    from nesting
    union all
    select
        event_id,
        0,
        dur_ns
    from timed
    where category in ('kernel', 'gpu_memcpy', 'gpu_memset')
),

event_alone as (
    select
        label.step,
        label.module_id,
        label.pass,
        sum(spent.cpu_ns) as cpu_ns,
        sum(spent.gpu_ns) as gpu_ns
    from label
    inner join spent on label.event_id = spent.event_id
    where label.module_id is not null
    group by label.step, label.module_id, label.pass
),

part as (
    select * from event_alone
    union all
    select
        label.step,
        shared_kernel.module_id,
        label.pass,
        0,
        shared_kernel.gpu_ns
    from shared_kernel
    inner join label on shared_kernel.event_id = label.event_id
    union all
    select
        label.step,
        label.module_id,
        label.pass,
        0,
        -shared_kernel.gpu_ns
    from shared_kernel
    inner join label on shared_kernel.event_id = label.event_id
),

alone as (
    select
        step,
        module_id,
        pass,
        sum(cpu_ns) as cpu_ns,
        sum(gpu_ns) as gpu_ns
    from part
    group by step, module_id, pass
)

select
    alone.step,
    part_of.whole_id as module_id,
    alone.pass,
    sum(case when part_of.module_id = part_of.whole_id then alone.cpu_ns else 0 end)::bigint as cpu_self_ns,
    sum(alone.cpu_ns)::bigint as cpu_total_ns,
    sum(case when part_of.module_id = part_of.whole_id then alone.gpu_ns else 0 end)::bigint as gpu_self_ns,
    sum(alone.gpu_ns)::bigint as gpu_total_ns
from part_of
inner join alone on part_of.module_id = alone.module_id
group by alone.step, part_of.whole_id, alone.pass
order by alone.step, module_id, alone.pass
