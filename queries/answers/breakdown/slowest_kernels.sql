-- Kernels, copies and memsets by name.
--
-- :param rank BIGINT = NULL       only this rank
-- :param step BIGINT = NULL       only this step
-- :param phase PHASE = NULL       only this phase
-- :param module VARCHAR = NULL    only work launched in this module or its submodules, by path
-- :param limit BIGINT >= 0 = 10   maximum number of rows
-- :reads gpu_event
-- :column name VARCHAR            full name
-- :column short_name VARCHAR      name without namespaces, template arguments and tile sizes
-- :column category VARCHAR        kernel, gpu_memcpy or gpu_memset
-- :column class KERNEL_CLASS
-- :column count BIGINT            number of runs
-- :column gpu_time_ns BIGINT      sum of durations
-- :column gpu_time_pct DOUBLE     share of the GPU time of the selection
-- :column mean_ns DOUBLE          mean duration
-- :column min_ns BIGINT           shortest duration
-- :column max_ns BIGINT           longest duration
-- :column example_rank BIGINT     rank of the longest run
-- :column example_event_id BIGINT
--                                 event of the longest run
select
    name,
    any_value(short_name) as short_name,
    category,
    any_value(class) as class,
    count(*) as count,
    sum(dur_ns)::bigint as gpu_time_ns,
    100.0 * sum(dur_ns) / nullif(sum(sum(dur_ns)) over (), 0) as gpu_time_pct,
    avg(dur_ns) as mean_ns,
    min(dur_ns) as min_ns,
    max(dur_ns) as max_ns,
    arg_max(rank, (dur_ns, -rank, -event_id)) as example_rank,
    arg_max(event_id, (dur_ns, -rank, -event_id)) as example_event_id
from gpu_event
where
    is_asked($rank, rank)
    and is_asked($step, step)
    and is_asked($phase, phase)
    and in_module(module_path, $module)
group by name, category
order by gpu_time_ns desc, name, category
limit $limit
