-- An optimizer on the CPU that passes over memory once for each op of its formula.
--
-- Condition: a trace without GPU work, in which the optimizer calls several in-place ops, one by one or on lists
-- (`_foreach_…`, which loops over the list on the CPU), and no fused op. If the trace names the optimizer, a fused
-- version of it must exist. Bound: the optimizer takes as long as the op with most time, because one pass over all
-- parameters must read and write at least the same data. Source: torch.optim, "Taking an optimizer step": `fused` (also
-- on the CPU); PyTorch performance tuning guide, "Fuse operations".
--
-- :reads host_activity, cpu_event, name_info, gpu_event
-- :only_with cpu_event where phase = 'optimizer'
-- :finding ops of an optimizer on the CPU and python between them, most of it {name}
-- :remedy Update each parameter in one pass: pass fused=True to the optimizer (Adam, AdamW, SGD and Adagrad on the
--     CPU).
-- :scenario fused_optimizer
with op as (
    -- One row per outermost op of the optimizer.
    select
        cpu_event.event_id,
        cpu_event.track_id,
        cpu_event.start_ns,
        cpu_event.end_ns,
        cpu_event.name
    from cpu_event
    left join cpu_event as around on cpu_event.rank = around.rank and cpu_event.parent_id = around.event_id
    where
        cpu_event.rank = $rank
        and cpu_event.step = $step
        and cpu_event.phase = 'optimizer'
        and cpu_event.category = 'cpu_op'
        and around.op_id is null
        and not exists (select 1 from gpu_event where gpu_event.rank = $rank)
),

longest_op as (
    select name
    from op
    group by name
    order by sum(end_ns - start_ns) desc, name
    limit 1
),

-- One row per outermost op of the optimizer, or stretch of python in between.
piece as (
    select * from op
    union all
    select
        begun.event_id,
        host_activity.track_id,
        host_activity.start_ns,
        host_activity.end_ns,
        'python' as name
    from host_activity
    asof inner join last_begun('cpu_event', $rank) as begun
        on host_activity.track_id = begun.track_id and host_activity.start_ns >= begun.start_ns
    where
        host_activity.rank = $rank
        and host_activity.step = $step
        and host_activity.phase = 'optimizer'
        and host_activity.kind = 'python'
        and host_activity.end_ns is not null
)

select
    piece.event_id,
    'host' as effect,
    piece.track_id,
    piece.start_ns,
    piece.end_ns,
    if(longest_op.name is null, piece.end_ns - piece.start_ns, 0) as saved_ns,
    piece.name
from piece
left join longest_op on piece.name = longest_op.name
where
    exists (
        select 1 from op
        where is_list_op(name) or (is_update_arithmetic(name) and ends_with(name, '_'))
        having count(*) > 1
    )
    and not exists (select 1 from op where contains(name, '_fused_'))
    and not exists (
        select 1 from name_info
        where
            rank = $rank
            and is_optimizer_mark(name)
            and not has_fused_cpu_update(optimizer_of_mark(name))
    )
order by piece.event_id, piece.start_ns
