-- Each training step: its time on the CPU, the GPU work it launched, and how long the GPU was idle.
--
-- GPU work belongs to the step whose CPU call launched it, whenever it ran. `gpu_busy_ns` is the time it kept its
-- device busy. Idle time of the GPU belongs to the step that the CPU is in until it launches the next work, and after
-- the launch to the step of the work. With several devices, both are sums over them.
--
-- :param rank BIGINT = NULL        only this rank
-- :reads step, rank_summary
-- :column rank BIGINT              process rank
-- :column step BIGINT              number of the step
-- :column name VARCHAR             the annotation that marks it; NULL when the whole trace is one step
-- :column evidence VARCHAR         profiler_step, annotation, loop, module, autograd, repetition or whole_trace
-- :column dur_ns BIGINT            duration on the CPU
-- :column gpu_event_count BIGINT   kernels, copies and memsets launched by the step
-- :column gpu_time_ns BIGINT       sum of their durations
-- :column gpu_busy_ns BIGINT       time in which they kept a device busy
-- :column gpu_idle_ns BIGINT       time in which a device had no work
-- :column gpu_busy_pct DOUBLE      busy time as a share of busy and idle time; NULL without GPU work
-- :column example_event_id BIGINT  event of the annotation; NULL without one
with use as (
    select
        rank,
        step,
        sum(event_count)::bigint as gpu_event_count,
        sum(time_ns) filter (where cause is null)::bigint as gpu_time_ns,
        sum(busy_ns)::bigint as gpu_busy_ns,
        coalesce(sum(time_ns) filter (where cause is not null), 0)::bigint as gpu_idle_ns
    from rank_summary
    where is_asked($rank, rank)
    group by rank, step
)

select
    step.rank,
    step.step,
    step.name,
    step.evidence,
    step.end_ns - step.start_ns as dur_ns,
    coalesce(use.gpu_event_count, 0) as gpu_event_count,
    coalesce(use.gpu_time_ns, 0) as gpu_time_ns,
    coalesce(use.gpu_busy_ns, 0) as gpu_busy_ns,
    coalesce(use.gpu_idle_ns, 0) as gpu_idle_ns,
    case
        when use.gpu_event_count > 0
            then 100.0 * use.gpu_busy_ns / nullif(use.gpu_busy_ns + use.gpu_idle_ns, 0)
    end as gpu_busy_pct,
    step.event_id as example_event_id
from step
left join use on step.rank = use.rank and step.step = use.step
where is_asked($rank, step.rank)
order by step.rank, step.start_ns
