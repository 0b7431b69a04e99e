-- GPU work of each name: how often, and how long.
--
-- So few rows answer questions that compare the kernels of all ranks of a large job.
--
-- :reads event, name_info, launch
-- :only_with launch
-- :column category VARCHAR    kernel, gpu_memcpy or gpu_memset
-- :column name VARCHAR        full name
-- :column class VARCHAR       computation, communication or memory
-- :column event_count BIGINT  how often
-- :column time_ns BIGINT      sum of the durations
-- :column busy_ns BIGINT      time in which they kept a device busy
-- :column min_ns BIGINT       shortest
-- :column median_ns BIGINT    median
-- :column max_ns BIGINT       longest
-- :column longest_id BIGINT   event of the longest
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
