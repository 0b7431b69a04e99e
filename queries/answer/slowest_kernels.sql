-- Kernels, copies and memsets by name.
--
-- :param rank BIGINT = NULL       only this rank
-- :param step BIGINT = NULL       only this step
-- :param phase VARCHAR = NULL     only this phase
-- :param limit BIGINT = 10        so many rows
-- :reads event, label, name_info
-- :column name VARCHAR            full name
-- :column short_name VARCHAR      without namespaces, template arguments and tile sizes
-- :column category VARCHAR        kernel, gpu_memcpy or gpu_memset
-- :column class VARCHAR           computation, communication or memory
-- :column count BIGINT            how often it ran
-- :column gpu_time_ns BIGINT      sum of durations
-- :column gpu_time_pct DOUBLE     share of the GPU time of the selection
-- :column mean_ns DOUBLE          mean duration
-- :column min_ns BIGINT           shortest
-- :column max_ns BIGINT           longest
select
    event.name,
    any_value(name_info.short_name) as short_name,
    event.category,
    any_value(name_info.class) as class,
    count(*) as count,
    sum(event.dur_ns)::bigint as gpu_time_ns,
    100.0 * sum(event.dur_ns) / nullif(sum(sum(event.dur_ns)) over (), 0) as gpu_time_pct,
    avg(event.dur_ns) as mean_ns,
    min(event.dur_ns) as min_ns,
    max(event.dur_ns) as max_ns
from event
inner join label on event.rank = label.rank and event.event_id = label.event_id
inner join name_info
    on (event.rank, event.category, event.name) = (name_info.rank, name_info.category, name_info.name)
where
    event.category in ('kernel', 'gpu_memcpy', 'gpu_memset')
    and ($rank is null or event.rank = $rank)
    and ($step is null or label.step = $step)
    and ($phase is null or label.phase = $phase)
group by event.name, event.category
order by gpu_time_ns desc, event.name, event.category
limit $limit
