-- The wait of each rank in a collective, split: until the last rank arrives, and as that rank began to record later.
--
-- A rank that records later than the others is late to the first collective by what nobody recorded. So of a wait that
-- is before any common end of a collective, as much is `start_wait_ns` as the last rank began its first step after the
-- waiting one began this step. From the end of a collective on, in which all of them took part, all lateness is in the
-- files.
--
-- :reads collective_match, step
-- :kept
-- :column rank BIGINT           process rank
-- :column match_id BIGINT       the collective, as in `collective_match`
-- :column event_id BIGINT       the kernel or span
-- :column late_rank BIGINT      the rank that came last; NULL where all came together
-- :column arrival_wait_ns BIGINT  waiting for what the last rank does in its own recording
-- :column start_wait_ns BIGINT  waiting as the last rank began to record later
-- :column began_ns BIGINT       when the rank's recording began, on the lowest rank's clock
with recording as (
    -- One row per rank: its first step.
    select
        rank,
        arg_min(step, start_ns) as first_step,
        min(start_ns) as start_ns
    from step
    group by rank
),

last_of_match as (
    select
        collective_match.match_id,
        collective_match.rank as late_rank,
        recording.first_step,
        recording.start_ns + collective_match.shift_ns as began_ns
    from collective_match
    inner join recording on collective_match.rank = recording.rank
    where collective_match.is_last
),

-- Collectives of each rank, with the end of the first one that its group, or all ranks, have in common.
met as (
    select
        *,
        least(
            min(end_ns) over (partition by rank, group_name),
            min(end_ns) filter (where rank_count = most_ranks) over (partition by rank)
        ) as first_end_ns
    from (
        select
            *,
            max(rank_count) over () as most_ranks
        from collective_match
    ) as counted
),

split as (
    select
        met.rank,
        met.match_id,
        met.event_id,
        last_of_match.late_rank,
        met.wait_ns,
        case
            when met.start_ns < met.first_end_ns
                then
                    greatest(
                        0,
                        least(
                            met.wait_ns, coalesce(last_of_match.began_ns - (own_step.start_ns + met.shift_ns), 0)
                        )
                    )
            else 0
        end as start_wait_ns,
        recording.start_ns + met.shift_ns as began_ns
    from met
    inner join recording on met.rank = recording.rank
    left join last_of_match on met.match_id = last_of_match.match_id
    left join step as own_step on met.rank = own_step.rank and last_of_match.first_step = own_step.step
)

select
    rank,
    match_id,
    event_id,
    late_rank,
    wait_ns - start_wait_ns as arrival_wait_ns,
    start_wait_ns,
    began_ns
from split
