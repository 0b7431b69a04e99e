-- An optimizer that updates parameters one by one, each with separate kernels.
--
-- Condition: in the optimizer, single-tensor in-place ops launch kernels, the same op several times, and no op on all
-- parameters at once (`_foreach_…`, `_fused_…`) does. Bound: these ops take no CPU time. On the GPU, the op with most
-- time stays, because all parameters must be read and written once. Source: PyTorch performance tuning guide, "Fuse
-- operations"; torch.optim, "Taking an optimizer step": `foreach` and `fused`; `OptimizerSingleTensorPattern` in
-- torch/profiler/_pattern_matcher.py.
--
-- :reads gpu_event, cpu_event, name_info
-- :only_with gpu_event where phase = 'optimizer'
-- :finding kernels of an optimizer that updates one parameter at a time
-- :remedy Update all parameters at once: pass fused=True to the optimizer, or foreach=True.
-- :scenario fused_optimizer
with kernel as (
    select *
    from gpu_event
    where rank = $rank and step = $step and phase = 'optimizer' and class != 'communication' and op is not null
),

-- One row per kernel of a repeated single-tensor op.
single_tensor_kernel as (
    select kernel.*
    from kernel
    where
        (is_update_arithmetic(op) or regexp_matches(op, '^aten::(sqrt|copy)_?$'))
        and not exists (select 1 from kernel as other where is_update_of_list(other.op))
        -- LBFGS and SparseAdam have neither `foreach` nor `fused`.
        and not exists (
            select 1 from name_info
            where
                name_info.rank = $rank
                and is_optimizer_mark(name_info.name)
                and not has_list_update(optimizer_of_mark(name_info.name))
        )
    qualify count(*) over (partition by op) > 1
),

longest_op as (
    select op
    from single_tensor_kernel
    group by op
    order by sum(dur_ns) desc, op
    limit 1
)

select
    single_tensor_kernel.event_id,
    'work' as effect,
    single_tensor_kernel.track_id,
    single_tensor_kernel.start_ns,
    single_tensor_kernel.end_ns,
    if(longest_op.op is null, single_tensor_kernel.dur_ns, 0) as saved_ns,
    single_tensor_kernel.short_name as name
from single_tensor_kernel
left join longest_op on single_tensor_kernel.op = longest_op.op
union all
select distinct
    cpu_event.event_id,
    'host' as effect,
    cpu_event.track_id,
    cpu_event.start_ns,
    cpu_event.end_ns,
    cpu_event.dur_ns as saved_ns,
    single_tensor_kernel.op as name
from single_tensor_kernel
inner join cpu_event on single_tensor_kernel.rank = cpu_event.rank and single_tensor_kernel.op_id = cpu_event.event_id
order by event_id, start_ns
