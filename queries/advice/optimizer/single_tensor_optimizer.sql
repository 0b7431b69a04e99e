-- An optimizer that updates one parameter after the other, each with kernels of its own.
--
-- Condition: in the optimizer, ops that update a single tensor in place launch kernels, the same op several times,
-- and no op for all parameters at once (`_foreach_…`, `_fused_…`) does. Bound: the CPU takes no time for these ops;
-- of the GPU's time that of the op with the most of it stays, as all parameters must be read and written once.
-- Source: PyTorch performance tuning guide, "Fuse operations"; torch.optim, "Taking an optimizer step": `foreach` and
-- `fused`; `OptimizerSingleTensorPattern` in torch/profiler/_pattern_matcher.py.
--
-- :reads gpu_work, nesting, event
-- :only_with gpu_work where phase = 'optimizer'
-- :what kernels of an optimizer that updates one parameter at a time
-- :do Update all parameters at once: pass fused=True to the optimizer, or foreach=True.
-- :scenario fused_optimizer
with kernel as (
    select *
    from gpu_work
    where rank = $rank and step = $step and phase = 'optimizer' and class != 'communication' and op is not null
),

single as (
    select kernel.*
    from kernel
    where
        regexp_matches(op, '^aten::(add|sub|mul|div|addcmul|addcdiv|lerp|sqrt|copy)_?$')
        and not exists (
            select 1 from kernel as other
            where regexp_matches(other.op, '_foreach_|_fused_|fused_adam|multi_tensor|Fused')
        )
        -- these have neither `foreach` nor `fused`
        and not exists (
            select 1 from event
            where event.rank = $rank and regexp_matches(event.name, '^Optimizer\.step#(LBFGS|SparseAdam)\.')
        )
    qualify count(*) over (partition by op) > 1
),

longest as (
    select op
    from single
    group by op
    order by sum(dur_ns) desc, op
    limit 1
)

select
    single.event_id,
    'work' as effect,
    single.track_id,
    single.start_ns,
    single.end_ns,
    if(longest.op is null, single.dur_ns, 0) as saved_ns,
    single.short_name as name
from single
left join longest on single.op = longest.op
union all
select distinct
    nesting.event_id,
    'host' as effect,
    nesting.track_id,
    nesting.start_ns,
    nesting.end_ns,
    nesting.end_ns - nesting.start_ns as saved_ns,
    single.op as name
from single
inner join nesting on single.rank = nesting.rank and single.op_id = nesting.event_id
order by event_id, start_ns
