-- Ranks late to the collectives, and the cost for other ranks: waiting for the last rank, without the transfer time.
--
-- The sums of `caused_wait_ns` and `wait_ns` over the ranks are equal: each wait is attributed to the last rank. Time
-- with several collectives in flight counts once and goes to the collective that started first. A rank without matched
-- collectives has no row.
--
-- :param rank BIGINT = NULL          only this rank
-- :param step BIGINT = NULL          only this step
-- :param phase PHASE = NULL          only collectives launched in this phase
-- :param module VARCHAR = NULL       only collectives launched in this module or its submodules, by path
-- :reads collective_match, collective_wait
-- :column rank RANK
-- :column collective_count BIGINT    number of collectives shared with other ranks of the run
-- :column last_count BIGINT          number of these collectives with this rank as the last
-- :column caused_wait_ns BIGINT      time other ranks waited for this rank as the last
-- :column late_ns BIGINT             sum of the delays after the median rank
-- :column wait_ns BIGINT             time waiting for late ranks
-- :column start_wait_ns BIGINT       time waiting for ranks with a later start of recording
-- :column transfer_ns BIGINT         remaining time in these collectives
-- :column began_ns BIGINT            start of the recording after the first rank's start
-- :column clock_offset_ns BIGINT     how far the clock is ahead of the lowest rank's clock; NULL without a common
--                                    collective
-- :column clock_error_ns BIGINT      median deviation of single collectives from that offset

-- one row per matched call
with overlapping_call as (
    -- Calls, with the end of the waiting time and of the duration of all earlier calls of the rank.
    select
        collective_match.*,
        collective_wait.start_wait_ns as skew_ns,
        collective_wait.began_ns,
        max(collective_match.start_ns + collective_match.wait_ns) over before as waiting_to_ns,
        max(collective_match.end_ns) over before as running_to_ns
    from collective_match
    inner join collective_wait
        on
            collective_match.rank = collective_wait.rank
            and collective_match.match_id = collective_wait.match_id
    window
        before as (
            partition by collective_match.rank
            order by collective_match.start_ns, collective_match.event_id
            rows between unbounded preceding and 1 preceding
        )
),

-- Calls, with their time outside all earlier calls.
own_call as (
    select
        *,
        greatest(0, start_ns + wait_ns - greatest(start_ns, coalesce(waiting_to_ns, start_ns))) as own_wait_ns,
        greatest(0, end_ns - greatest(start_ns, coalesce(running_to_ns, start_ns))) as own_ns,
        least(skew_ns, own_wait_ns) as start_wait_ns,
        max(skew_ns) over (partition by match_id) as most_skew_ns
    from overlapping_call
),

wait_of_call as (
    select
        *,
        own_wait_ns - start_wait_ns as arrival_wait_ns,
        sum(own_wait_ns - start_wait_ns) over (partition by match_id) as all_wait_ns,
        began_ns - min(began_ns) over () as later_ns
    from own_call
)

select
    rank,
    count(*) as collective_count,
    count(*) filter (where is_last and (all_wait_ns > 0 or most_skew_ns = 0)) as last_count,
    coalesce(sum(all_wait_ns) filter (where is_last), 0)::bigint as caused_wait_ns,
    sum(greatest(0, late_ns - case when is_last then most_skew_ns else 0 end))::bigint as late_ns,
    sum(arrival_wait_ns)::bigint as wait_ns,
    sum(start_wait_ns)::bigint as start_wait_ns,
    sum(own_ns - own_wait_ns)::bigint as transfer_ns,
    any_value(later_ns) as began_ns,
    any_value(offset_ns) as clock_offset_ns,
    any_value(error_ns) as clock_error_ns
from wait_of_call
where
    is_asked($rank, rank)
    and is_asked($step, step)
    and is_asked($phase, phase)
    and in_module(module_path, $module)
group by rank
order by caused_wait_ns desc, late_ns desc, rank
