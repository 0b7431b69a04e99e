-- GPU work by class, kernel, op, module or phase: how often, how long, and how the durations spread.
--
-- Every row but those of a class is a sum over real kernels of one name, op or module; nothing is put together under
-- `others`. What is grouped by something unknown (work without an op, a module) has a row with key NULL. `busy_ns`
-- shares out the time the device was busy: of work that overlaps, the one that started first has it.
--
-- :param by VARCHAR in (class, name, short_name, op, module, phase, category) = 'short_name'
--                                   what a row is
-- :param rank BIGINT = NULL         only this rank
-- :param device BIGINT = NULL       only this device
-- :param stream BIGINT = NULL       only this stream
-- :param step BIGINT = NULL         only work launched in this step
-- :param phase PHASE = NULL
--                                   only work launched in this phase
-- :param module VARCHAR = NULL      only work launched in this module or one in it, by path
-- :param kernel_class KERNEL_CLASS = NULL
--                                   only this class of work
-- :param limit BIGINT >= 0 = NULL   so many rows of each rank; NULL for all
-- :reads gpu_work, event
-- :column rank BIGINT               process rank
-- :column key VARCHAR               the class, name, short name, op, module path, phase or category
-- :column class VARCHAR             computation, communication or memory; mixed if the key has work of several
-- :column count BIGINT              kernels, copies and memsets
-- :column gpu_time_ns BIGINT        sum of their durations
-- :column gpu_time_pct DOUBLE       share of the selection's durations on this rank
-- :column busy_ns BIGINT            time they kept a device busy
-- :column mean_ns DOUBLE            mean duration
-- :column std_ns DOUBLE             standard deviation (of a sample); 0 for a single one
-- :column min_ns BIGINT             shortest
-- :column median_ns BIGINT          median
-- :column max_ns BIGINT             longest
-- :column example_event_id BIGINT   event of the longest
with work as ( -- noqa: ST03
    select * from gpu_work
    where
        is_asked($rank, rank)
        and is_asked($device, device)
        and is_asked($stream, stream)
        and is_asked($step, step)
        and is_asked($phase, phase)
        and in_module(module_path, $module)
        and is_asked($kernel_class, class)
),

grouped as (
    select
        rank,
        key,
        case when min(class) = max(class) then min(class) else 'mixed' end as class,
        count(*) as count,
        sum(dur_ns)::bigint as gpu_time_ns,
        sum(busy_ns)::bigint as busy_ns,
        avg(dur_ns) as mean_ns,
        coalesce(stddev_samp(dur_ns), 0) as std_ns,
        min(dur_ns) as min_ns,
        quantile_disc(dur_ns, 0.5) as median_ns,
        max(dur_ns) as max_ns,
        arg_max(event_id, (dur_ns, -event_id)) as example_event_id
    from keyed_work('work', 'event', $by)
    group by rank, key
),

ranked as (
    select
        *,
        100.0 * gpu_time_ns / nullif(sum(gpu_time_ns) over (partition by rank), 0) as gpu_time_pct,
        row_number() over (partition by rank order by gpu_time_ns desc, key) as place
    from grouped
)

select
    rank,
    key,
    class,
    count,
    gpu_time_ns,
    gpu_time_pct,
    busy_ns,
    mean_ns,
    std_ns,
    min_ns,
    median_ns,
    max_ns,
    example_event_id
from ranked
where $limit is null or place <= $limit
order by rank, place
