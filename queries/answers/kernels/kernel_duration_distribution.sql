-- How the durations of each kernel spread, over all its runs and over the ranks.
--
-- A wide spread of one kernel means that its inputs differ, or that it waits: a collective lasts until the last rank
-- has come. `slowest_rank` and `fastest_rank` compare the ranks' mean durations. Percentiles are durations that occur.
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
-- :param limit BIGINT >= 0 = NULL   so many rows; NULL for all
-- :reads gpu_work, event
-- :column key VARCHAR               the class, name, short name, op, module path, phase or category
-- :column class VARCHAR             computation, communication or memory; mixed if the key has work of several
-- :column rank_count BIGINT         ranks that ran it
-- :column count BIGINT              kernels, copies and memsets
-- :column gpu_time_ns BIGINT        sum of their durations
-- :column mean_ns DOUBLE            mean duration
-- :column std_ns DOUBLE             standard deviation (of a sample); 0 for a single one
-- :column min_ns BIGINT             shortest
-- :column p05_ns BIGINT             5 % are not longer
-- :column p25_ns BIGINT             25 % are not longer
-- :column median_ns BIGINT          50 % are not longer
-- :column p75_ns BIGINT             75 % are not longer
-- :column p95_ns BIGINT             95 % are not longer
-- :column p99_ns BIGINT             99 % are not longer
-- :column max_ns BIGINT             longest
-- :column slowest_rank BIGINT       rank with the longest mean
-- :column slowest_mean_ns DOUBLE    its mean
-- :column fastest_rank BIGINT       rank with the shortest mean
-- :column fastest_mean_ns DOUBLE    its mean
with asked_work as ( -- noqa: ST03
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

work as (
    select * from keyed_work('asked_work', 'event', $by)
),

by_rank as (
    select
        key,
        rank,
        avg(dur_ns) as mean_ns
    from work
    group by key, rank
),

compared as (
    select
        key,
        count(*) as rank_count,
        arg_max(rank, (mean_ns, -rank)) as slowest_rank,
        max(mean_ns) as slowest_mean_ns,
        arg_min(rank, (mean_ns, rank)) as fastest_rank,
        min(mean_ns) as fastest_mean_ns
    from by_rank
    group by key
),

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
    compared.rank_count,
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
    compared.slowest_rank,
    compared.slowest_mean_ns,
    compared.fastest_rank,
    compared.fastest_mean_ns
from spread
inner join compared on spread.key is not distinct from compared.key
order by spread.gpu_time_ns desc, spread.key
limit $limit
