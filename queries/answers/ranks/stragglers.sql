-- Which rank is late to the collectives, and what that costs the others: waiting for the last rank apart from transfer.
--
-- The sum of `caused_wait_ns` over the ranks is that of `wait_ns`: each wait counts to the rank that came last. Time in
-- which several collectives are in flight counts once, to the one that started first. A rank without matched
-- collectives has no row.
--
-- :param rank BIGINT = NULL          only this rank
-- :param step BIGINT = NULL          only this step
-- :param phase PHASE = NULL
--                                    only collectives launched in this phase
-- :param module VARCHAR = NULL       only collectives launched in this module or one in it, by path
-- :reads collective_match, collective_wait
-- :column rank BIGINT                process rank
-- :column collective_count BIGINT    collectives that it shares with other ranks of the run
-- :column last_count BIGINT          of them, in which it came last
-- :column caused_wait_ns BIGINT      time that the other ranks waited where it came last
-- :column late_ns BIGINT             how much later than the middle rank it came, in all
-- :column wait_ns BIGINT             time that it waited for what others did
-- :column start_wait_ns BIGINT       time that it waited as others began to record later
-- :column transfer_ns BIGINT         the rest of its time in these collectives
-- :column began_ns BIGINT            how much later than the first rank its recording began
-- :column clock_offset_ns BIGINT     how far its clock is ahead of the lowest rank's; NULL when they share none
-- :column clock_error_ns BIGINT      median distance of single collectives from that offset
with in_flight as (
    -- Calls with the time up to which earlier calls of the rank wait, and up to which they run.
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

-- Calls with their time that no earlier call has.
own as (
    select
        *,
        greatest(0, start_ns + wait_ns - greatest(start_ns, coalesce(waiting_to_ns, start_ns))) as own_wait_ns,
        greatest(0, end_ns - greatest(start_ns, coalesce(running_to_ns, start_ns))) as own_ns,
        least(skew_ns, own_wait_ns) as start_wait_ns,
        max(skew_ns) over (partition by match_id) as most_skew_ns
    from in_flight
),

waited as (
    select
        *,
        own_wait_ns - start_wait_ns as arrival_wait_ns,
        sum(own_wait_ns - start_wait_ns) over (partition by match_id) as all_wait_ns,
        began_ns - min(began_ns) over () as later_ns
    from own
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
from waited
where
    is_asked($rank, rank)
    and is_asked($step, step)
    and is_asked($phase, phase)
    and in_module(module_path, $module)
group by rank
order by caused_wait_ns desc, late_ns desc, rank
