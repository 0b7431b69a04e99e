-- Wait of each rank in a collective, split into waiting for the last rank and for its recording to begin.
--
-- A rank that begins to record later appears late to the first collective, because of unrecorded time. For a wait
-- before the first common end of a collective, `start_wait_ns` is therefore the delay between the start of the waiting
-- rank's step and the start of the last rank's first step. After the end of the first common collective, all delays are
-- recorded.
--
-- :reads collective_match, step
-- :kept
-- :column rank RANK
-- :column match_id BIGINT       the collective, as in `collective_match`
-- :column event_id BIGINT       the kernel or span
-- :column late_rank BIGINT      the last rank; NULL if all ranks arrived together
-- :column arrival_wait_ns BIGINT
--                               waiting for recorded activity of the last rank
-- :column start_wait_ns BIGINT  waiting caused by the later recording of the last rank
-- :column began_ns BIGINT       start of the rank's recording, on the lowest rank's clock
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

-- Collectives of each rank, with the end of the first common collective of its group or of all ranks.
call as (
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

-- one row per rank and collective, with the split wait
split_wait as (
    select
        call.rank,
        call.match_id,
        call.event_id,
        last_of_match.late_rank,
        call.wait_ns,
        case
            when call.start_ns < call.first_end_ns
                then
                    greatest(
                        0,
                        least(
                            call.wait_ns, coalesce(last_of_match.began_ns - (own_step.start_ns + call.shift_ns), 0)
                        )
                    )
            else 0
        end as start_wait_ns,
        recording.start_ns + call.shift_ns as began_ns
    from call
    inner join recording on call.rank = recording.rank
    left join last_of_match on call.match_id = last_of_match.match_id
    left join step as own_step on call.rank = own_step.rank and last_of_match.first_step = own_step.step
)

select
    rank,
    match_id,
    event_id,
    late_rank,
    wait_ns - start_wait_ns as arrival_wait_ns,
    start_wait_ns,
    began_ns
from split_wait
