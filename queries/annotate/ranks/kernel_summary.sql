-- Count and duration of GPU work by name.
--
-- This table is small enough to compare the kernels of all ranks of a large job.
--
-- :reads event, name_info, launch
-- :only_with launch
-- :column category VARCHAR    kernel, gpu_memcpy or gpu_memset
-- :column name VARCHAR        full name
-- :column class KERNEL_CLASS
-- :column event_count BIGINT  number of events
-- :column time_ns BIGINT      sum of the durations
-- :column busy_ns BIGINT      busy time of the device for these events
-- :column min_ns BIGINT       shortest duration
-- :column median_ns BIGINT    median duration
-- :column max_ns BIGINT       longest duration
-- :column longest_id BIGINT   event with the longest duration
select
    event.category,
    event.name,
    any_value(name_info.class) as class,
    count(*) as event_count,
    sum(event.dur_ns)::bigint as time_ns,
    sum(launch.busy_ns)::bigint as busy_ns,
    min(event.dur_ns) as min_ns,
    quantile_disc(event.dur_ns, 0.5) as median_ns,
    max(event.dur_ns) as max_ns,
    arg_max(event.event_id, (event.dur_ns, -event.event_id)) as longest_id
from launch
inner join event on launch.event_id = event.event_id
left join name_info on (event.category, event.name) = (name_info.category, name_info.name)
group by event.category, event.name
order by event.category, event.name
