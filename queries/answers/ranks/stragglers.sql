-- Which rank is late to the collectives, and what that costs the others: waiting for the last rank apart from transfer.
--
-- The sum of `caused_wait_ns` over the ranks is that of `wait_ns`: each wait counts to the rank that came last.
-- Collectives in flight at the same time count each. A rank without matched collectives has no row.
--
-- :param rank BIGINT = NULL          only this rank
-- :param step BIGINT = NULL          only this step
-- :param phase PHASE = NULL
--                                    only collectives launched in this phase
-- :param module VARCHAR = NULL       only collectives launched in this module or one in it, by path
-- :reads collective_match
-- :column rank BIGINT                process rank
-- :column collective_count BIGINT    collectives that it shares with other ranks of the run
-- :column last_count BIGINT          of them, in which it came last
-- :column caused_wait_ns BIGINT      time that the other ranks waited where it came last
-- :column late_ns BIGINT             how much later than the middle rank it came, in all
-- :column wait_ns BIGINT             time that it waited for others
-- :column transfer_ns BIGINT         the rest of its time in these collectives
-- :column clock_offset_ns BIGINT     how far its clock is ahead of the lowest rank's; NULL when they share none
-- :column clock_error_ns BIGINT      median distance of single collectives from that offset
with waited as (
    select
        *,
        sum(wait_ns) over (partition by match_id) as all_wait_ns
    from collective_match
)

select
    rank,
    count(*) as collective_count,
    count(*) filter (where is_last) as last_count,
    coalesce(sum(all_wait_ns) filter (where is_last), 0)::bigint as caused_wait_ns,
    sum(late_ns)::bigint as late_ns,
    sum(wait_ns)::bigint as wait_ns,
    sum(transfer_ns)::bigint as transfer_ns,
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
