-- Gradients reset by writing zeros.
--
-- Condition: GPU work launched by `zero_grad`. Bound: the work and the CPU time in `zero_grad` take no time. Source:
-- PyTorch performance tuning guide, "Use parameter.grad = None instead of model.zero_grad() or optimizer.zero_grad()";
-- `GradNotSetToNonePattern` in torch/profiler/_pattern_matcher.py.
--
-- :reads gpu_event, host_activity, cpu_event
-- :only_with gpu_event where phase = 'zero_grad'
-- :finding kernels that write zeros into gradients
-- :remedy Release the gradients instead: optimizer.zero_grad(set_to_none=True), the default since PyTorch 2.0.
with zero_write as (
    select *
    from gpu_event
    where
        rank = $rank
        and step = $step
        and phase = 'zero_grad'
        and (op is null or is_fill_op(op))
)

select
    event_id,
    'work' as effect,
    track_id,
    start_ns,
    end_ns,
    dur_ns as saved_ns,
    short_name as name
from zero_write
union all
select
    begun.event_id,
    'host' as effect,
    host_activity.track_id,
    host_activity.start_ns,
    host_activity.end_ns,
    host_activity.end_ns - host_activity.start_ns as saved_ns,
    'zero_grad' as name
from host_activity
asof inner join last_begun('cpu_event', $rank) as begun
    on host_activity.track_id = begun.track_id and host_activity.start_ns >= begun.start_ns
where
    host_activity.rank = $rank
    and host_activity.step = $step
    and host_activity.phase = 'zero_grad'
    and host_activity.kind in ('op', 'python')
    and host_activity.end_ns is not null
    and exists (select 1 from zero_write)
order by event_id, start_ns
