-- Each training step: duration on the CPU, launched GPU work, and idle time of the GPU.
--
-- GPU work belongs to the step of its launching call, whenever the work ran. Idle time before the next launch belongs
-- to the step of the CPU; idle time after the launch belongs to the step of the launched work. With several devices,
-- busy and idle times are sums over devices.
--
-- :param rank BIGINT = NULL        only this rank
-- :reads step, rank_summary
-- :column rank RANK
-- :column step STEP
-- :column name VARCHAR             annotation of the step; NULL if the whole trace is one step
-- :column evidence VARCHAR         profiler_step, annotation, loop, module, autograd, repetition or whole_trace
-- :column dur_ns BIGINT            duration on the CPU
-- :column gpu_event_count BIGINT   kernels, copies and memsets launched by the step
-- :column gpu_time_ns BIGINT       sum of the durations of this GPU work
-- :column gpu_busy_ns BIGINT       time in which this GPU work kept a device busy
-- :column gpu_idle_ns BIGINT       time in which a device had no work
-- :column gpu_busy_pct DOUBLE      busy time as a share of busy and idle time; NULL without GPU work
-- :column example_event_id BIGINT  event of the annotation; NULL without an annotation

-- one row per step: GPU work, busy time and idle time
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
