-- Steps with the profiler's own work, and the resulting extra length of the step.
--
-- The CPU does all later work of the step later. If the GPU has work queued, the step becomes longer only by the GPU's
-- idle time from then to the end of the step, because earlier launches would remove only this time. With several
-- devices, the device with the least idle time counts.
--
-- :reads step_role, host_activity, idle_part, gpu_busy
-- :only_with host_activity where kind = 'profiler'
-- :column step STEP
-- :column profiler_ns BIGINT  extra length of the step caused by the profiler's own work
with profiler_work as (
    select
        host_activity.step,
        min(host_activity.start_ns) as first_ns,
        any_value(step_role.begin_ns + step_role.length_ns) as until_ns,
        any_value(step_role.length_ns) as length_ns,
        sum(host_activity.end_ns - host_activity.start_ns)::bigint as own_ns
    from host_activity
    inner join step_role on host_activity.step = step_role.step
    where host_activity.kind = 'profiler' and host_activity.end_ns > host_activity.start_ns
    group by host_activity.step
),

-- Idle time of each device, from the profiler's work to the end of the step.
idle_time as (
    select
        profiler_work.step,
        idle_part.device,
        sum(
            least(idle_part.end_ns, profiler_work.until_ns) - greatest(idle_part.start_ns, profiler_work.first_ns)
        )::bigint as idle_ns
    from profiler_work
    inner join idle_part on profiler_work.first_ns < idle_part.end_ns and profiler_work.until_ns > idle_part.start_ns
    group by profiler_work.step, idle_part.device
),

least_idle_time as (
    select
        profiler_work.step,
        min(coalesce(idle_time.idle_ns, 0)) as idle_ns
    from profiler_work
    cross join (select distinct device from gpu_busy) as busy
    left join idle_time on profiler_work.step = idle_time.step and busy.device = idle_time.device
    group by profiler_work.step
)

select
    profiler_work.step,
    least(
        profiler_work.own_ns,
        profiler_work.length_ns,
        coalesce(least_idle_time.idle_ns, profiler_work.own_ns)
    )::bigint as profiler_ns
from profiler_work
left join least_idle_time on profiler_work.step = least_idle_time.step
order by profiler_work.step
