-- Work by class and idle time by cause, as sums per step and phase on the GPU.
--
-- This table is small enough to compare all ranks of a large job. Each GPU event, and each part of the idle time,
-- belongs to exactly one row.
--
-- :reads event, name_info, launch, label, idle_part
-- :only_with launch or idle_part
-- :column step STEP           of the launch, or of the idle time; NULL outside every step
-- :column phase PHASE         of the launch, or of the idle time; NULL if unknown
-- :column class KERNEL_CLASS  NULL for idle time
-- :column cause VARCHAR       cause of the idle time, as in `idle_part`; NULL for work
-- :column event_count BIGINT  kernels, copies and memsets; 0 for idle time
-- :column time_ns BIGINT      sum of the durations, or the idle time
-- :column busy_ns BIGINT      busy time of the device for these events; 0 for idle time
select
    label.step,
    label.phase,
    name_info.class,
    null as cause,
    count(*) as event_count,
    sum(event.dur_ns)::bigint as time_ns,
    sum(launch.busy_ns)::bigint as busy_ns
from launch
inner join label on launch.event_id = label.event_id
inner join event on launch.event_id = event.event_id
left join name_info on (event.category, event.name) = (name_info.category, name_info.name)
group by label.step, label.phase, name_info.class
union all
select
    step,
    phase,
    null as class,
    cause,
    0 as event_count,
    sum(end_ns - start_ns)::bigint as time_ns,
    0 as busy_ns
from idle_part
group by step, phase, cause
order by step, phase, class, cause
