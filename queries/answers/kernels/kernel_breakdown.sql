-- GPU work by class, kernel, op, module or phase: count, time, and spread of the durations.
--
-- Rows are never merged into a row `others`. Work with an unknown key (no op, no module) has a row with key NULL.
-- `busy_ns` splits the busy time of the device: overlapping time goes to the work that started first.
--
-- :param by VARCHAR in (class, name, short_name, op, module, phase, category) = 'short_name'
--                                   one row per value of this column
-- :param rank BIGINT = NULL         only this rank
-- :param device BIGINT = NULL       only this device
-- :param stream BIGINT = NULL       only this stream
-- :param step BIGINT = NULL         only work launched in this step
-- :param phase PHASE = NULL         only work launched in this phase
-- :param module VARCHAR = NULL      only work launched in this module or its submodules, by path
-- :param kernel_class KERNEL_CLASS = NULL
--                                   only this class of work
-- :param limit BIGINT >= 0 = NULL   maximum number of rows per rank; NULL for all
-- :reads gpu_event, event
-- :column rank RANK
-- :column key VARCHAR               class, name, short name, op, module path, phase or category
-- :column class VARCHAR             computation, communication or memory; mixed if the key has work of several classes
-- :column count BIGINT              kernels, copies and memsets
-- :column gpu_time_ns BIGINT        sum of the durations
-- :column gpu_time_pct DOUBLE       share of the selection's duration on this rank
-- :column busy_ns BIGINT            time in which this work kept a device busy
-- :column mean_ns DOUBLE            mean duration
-- :column std_ns DOUBLE             sample standard deviation of the durations; 0 for a single event
-- :column min_ns BIGINT             shortest duration
-- :column median_ns BIGINT          median duration
-- :column max_ns BIGINT             longest duration
-- :column example_event_id BIGINT   longest event

-- one row per selected GPU event
with work as ( -- noqa: ST03
    select * from gpu_event
    where
        is_asked($rank, rank)
        and is_asked($device, device)
        and is_asked($stream, stream)
        and is_asked($step, step)
        and is_asked($phase, phase)
        and in_module(module_path, $module)
        and is_asked($kernel_class, class)
),

-- one row per rank and key
key_total as (
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

ranked_key as (
    select
        *,
        100.0 * gpu_time_ns / nullif(sum(gpu_time_ns) over (partition by rank), 0) as gpu_time_pct,
        row_number() over (partition by rank order by gpu_time_ns desc, key) as place
    from key_total
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
from ranked_key
where $limit is null or place <= $limit
order by rank, place
