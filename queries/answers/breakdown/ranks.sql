-- Comparison of the ranks: steps, GPU use, and distance from the usual rank of the job.
--
-- The distance is the modified z-score of Iglewicz and Hoaglin, "How to detect and handle outliers", 1993: the
-- deviation from the median of the ranks, divided by 1.4826 times the median of these deviations (for normal noise, the
-- standard deviation). If most ranks are equal, the divisor is 1.2533 times the mean deviation. A score over 3.5 is an
-- outlier.
--
-- :reads rank_info, step, rank_summary
-- :column rank RANK
-- :column tp BIGINT                    index in the tensor-parallel group; NULL if the group names do not show the
--                                      index
-- :column pp BIGINT                    index in the pipeline-parallel group; NULL as for `tp`
-- :column dp BIGINT                    index in the data-parallel group; NULL as for `tp`
-- :column ep BIGINT                    index in the expert-parallel group; NULL as for `tp`
-- :column step_count BIGINT            number of steps
-- :column step_ns BIGINT               mean duration of a step on the CPU; NULL without steps
-- :column gpu_busy_ns BIGINT           time in which a device was busy
-- :column gpu_idle_ns BIGINT           time in which a device had no work
-- :column gpu_busy_pct DOUBLE          busy time as a share of busy and idle time; NULL without GPU work
-- :column computation_ns BIGINT        busy time attributed to computation (overlapping time goes to the work that
--                                      started first)
-- :column communication_ns BIGINT      busy time attributed to collective communication
-- :column copy_ns BIGINT               busy time attributed to copies and memsets
-- :column idle_cause USE_CAUSE         largest cause of idle time, as in `device_use`; NULL without idle time
-- :column idle_cause_ns BIGINT         idle time of this cause; NULL without idle time
-- :column oddity DOUBLE                largest of the modified z-scores of `step_ns`, `gpu_busy_pct` and
--                                      `computation_ns`; NULL if all ranks are equal
-- :column is_outlier BOOLEAN           `oddity` is above 3.5

-- one row per rank: busy and idle time
with use as (
    select
        rank,
        sum(busy_ns)::bigint as gpu_busy_ns,
        sum(event_count) as gpu_event_count,
        coalesce(sum(time_ns) filter (where cause is not null), 0)::bigint as gpu_idle_ns,
        coalesce(sum(busy_ns) filter (where class = 'computation'), 0)::bigint as computation_ns,
        coalesce(sum(busy_ns) filter (where class = 'communication'), 0)::bigint as communication_ns,
        coalesce(sum(busy_ns) filter (where class = 'memory'), 0)::bigint as copy_ns
    from rank_summary
    group by rank
),

idle_time as (
    select
        rank,
        use_cause(cause) as cause,
        sum(time_ns)::bigint as idle_ns
    from rank_summary
    where cause is not null
    group by all
),

-- The largest cause of each rank. Ties are resolved as in `device_use`.
worst_idle as (
    select
        rank,
        cause,
        idle_ns
    from idle_time
    where idle_ns > 0
    qualify
        row_number() over (
            partition by rank
            order by
                idle_ns desc,
                list_position(
                    [
                        'load_data', 'profiler', 'sync', 'other_ranks', 'other_thread', 'cpu_tensor', 'launching',
                        'python', 'queued', 'unobserved', 'unknown'
                    ],
                    cause
                )
        ) = 1
),

pace as (
    select
        rank,
        count(*) as step_count,
        round(avg(end_ns - start_ns))::bigint as step_ns
    from step
    group by rank
),

-- one row per rank, with step, busy and idle time
one_rank as (
    select
        rank_info.rank,
        rank_info.tp,
        rank_info.pp,
        rank_info.dp,
        rank_info.ep,
        coalesce(pace.step_count, 0) as step_count,
        pace.step_ns,
        coalesce(use.gpu_busy_ns, 0) as gpu_busy_ns,
        coalesce(use.gpu_idle_ns, 0) as gpu_idle_ns,
        case
            when use.gpu_event_count > 0
                then 100.0 * use.gpu_busy_ns / nullif(use.gpu_busy_ns + use.gpu_idle_ns, 0)
        end as gpu_busy_pct,
        coalesce(use.computation_ns, 0) as computation_ns,
        coalesce(use.communication_ns, 0) as communication_ns,
        coalesce(use.copy_ns, 0) as copy_ns,
        worst_idle.cause as idle_cause,
        worst_idle.idle_ns as idle_cause_ns
    from rank_info
    left join pace on rank_info.rank = pace.rank
    left join use on rank_info.rank = use.rank
    left join worst_idle on rank_info.rank = worst_idle.rank
),

distance as (
    select
        *,
        abs(step_ns - median(step_ns) over ()) as step_off,
        abs(gpu_busy_pct - median(gpu_busy_pct) over ()) as busy_off,
        abs(computation_ns - median(computation_ns) over ()) as computation_off
    from one_rank
),

rank_score as (
    select
        * exclude (step_off, busy_off, computation_off),
        greatest(
            modified_z_score(step_off, median(step_off) over (), avg(step_off) over ()),
            modified_z_score(busy_off, median(busy_off) over (), avg(busy_off) over ()),
            modified_z_score(computation_off, median(computation_off) over (), avg(computation_off) over ())
        ) as oddity
    from distance
)

select
    *,
    coalesce(oddity > most_usual_z_score(), false) as is_outlier
from rank_score
order by rank
