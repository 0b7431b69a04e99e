-- Each training step: its time on the CPU, the GPU work it launched, and how long the GPU was idle.
--
-- GPU work belongs to the step whose CPU call launched it, whenever it ran. `gpu_busy_ns` is the time it kept its
-- device busy. Idle time of the GPU belongs to the step that the CPU is in until it launches the next work, and after
-- the launch to the step of the work. With several devices, both are sums over them.
--
-- :param rank BIGINT = NULL        only this rank
-- :reads step, label, event, launch, idle_part
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
with work as (
    select
        label.rank,
        label.step,
        count(*) as gpu_event_count,
        sum(event.dur_ns)::bigint as gpu_time_ns,
        sum(launch.busy_ns)::bigint as gpu_busy_ns
    from launch
    inner join label on launch.rank = label.rank and launch.event_id = label.event_id
    inner join event on launch.rank = event.rank and launch.event_id = event.event_id
    group by label.rank, label.step
),

idle as (
    select
        rank,
        step,
        sum(end_ns - start_ns)::bigint as gpu_idle_ns
    from idle_part
    group by rank, step
)

select
    step.rank,
    step.step,
    step.name,
    step.evidence,
    step.end_ns - step.start_ns as dur_ns,
    coalesce(work.gpu_event_count, 0) as gpu_event_count,
    coalesce(work.gpu_time_ns, 0) as gpu_time_ns,
    coalesce(work.gpu_busy_ns, 0) as gpu_busy_ns,
    coalesce(idle.gpu_idle_ns, 0) as gpu_idle_ns,
    100.0 * work.gpu_busy_ns / nullif(work.gpu_busy_ns + coalesce(idle.gpu_idle_ns, 0), 0) as gpu_busy_pct
from step
left join work on step.rank = work.rank and step.step = work.step
left join idle on step.rank = idle.rank and step.step = idle.step
where is_asked($rank, step.rank)
order by step.rank, step.start_ns
