-- Distribution of the durations of each kernel, over all its runs and over the ranks.
--
-- A wide spread of one kernel means different inputs, or waiting: a collective lasts until the last rank arrives.
-- `slowest_rank` and `fastest_rank` compare the mean durations of the ranks. Percentiles are actual durations, without
-- interpolation.
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
-- :param limit BIGINT >= 0 = NULL   maximum number of rows; NULL for all
-- :reads gpu_event, event
-- :column key VARCHAR               class, name, short name, op, module path, phase or category
-- :column class VARCHAR             computation, communication or memory; mixed if the key has work of several classes
-- :column rank_count BIGINT         number of ranks with this work
-- :column count BIGINT              kernels, copies and memsets
-- :column gpu_time_ns BIGINT        sum of the durations
-- :column mean_ns DOUBLE            mean duration
-- :column std_ns DOUBLE             sample standard deviation of the durations; 0 for a single event
-- :column min_ns BIGINT             shortest duration
-- :column p05_ns BIGINT             5th percentile of the durations
-- :column p25_ns BIGINT             25th percentile
-- :column median_ns BIGINT          median duration
-- :column p75_ns BIGINT             75th percentile
-- :column p95_ns BIGINT             95th percentile
-- :column p99_ns BIGINT             99th percentile
-- :column max_ns BIGINT             longest duration
-- :column slowest_rank BIGINT       rank with the longest mean duration
-- :column slowest_mean_ns DOUBLE    mean duration on the slowest rank
-- :column fastest_rank BIGINT       rank with the shortest mean duration
-- :column fastest_mean_ns DOUBLE    mean duration on the fastest rank

-- one row per selected GPU event
with asked_work as ( -- noqa: ST03
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

work as (
    select * from keyed_work('asked_work', 'event', $by)
),

rank_mean as (
    select
        key,
        rank,
        avg(dur_ns) as mean_ns
    from work
    group by key, rank
),

-- one row per key: the slowest and the fastest rank
rank_extreme as (
    select
        key,
        count(*) as rank_count,
        arg_max(rank, (mean_ns, -rank)) as slowest_rank,
        max(mean_ns) as slowest_mean_ns,
        arg_min(rank, (mean_ns, rank)) as fastest_rank,
        min(mean_ns) as fastest_mean_ns
    from rank_mean
    group by key
),

-- one row per key: the distribution of the durations
spread as (
    select
        key,
        case when min(class) = max(class) then min(class) else 'mixed' end as class,
        count(*) as count,
        sum(dur_ns)::bigint as gpu_time_ns,
        avg(dur_ns) as mean_ns,
        coalesce(stddev_samp(dur_ns), 0) as std_ns,
        min(dur_ns) as min_ns,
        quantile_disc(dur_ns, [0.05, 0.25, 0.5, 0.75, 0.95, 0.99]) as at,
        max(dur_ns) as max_ns
    from work
    group by key
)

select
    spread.key,
    spread.class,
    rank_extreme.rank_count,
    spread.count,
    spread.gpu_time_ns,
    spread.mean_ns,
    spread.std_ns,
    spread.min_ns,
    spread.at[1] as p05_ns,
    spread.at[2] as p25_ns,
    spread.at[3] as median_ns,
    spread.at[4] as p75_ns,
    spread.at[5] as p95_ns,
    spread.at[6] as p99_ns,
    spread.max_ns,
    rank_extreme.slowest_rank,
    rank_extreme.slowest_mean_ns,
    rank_extreme.fastest_rank,
    rank_extreme.fastest_mean_ns
from spread
inner join rank_extreme on spread.key is not distinct from rank_extreme.key
order by spread.gpu_time_ns desc, spread.key
limit $limit
