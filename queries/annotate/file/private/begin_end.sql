-- Durations of events given as separate begin and end (`ph` B and E): an end closes the last begin one level up.
--
-- The level is the running number of open begins on the thread, in order of time and then of the file.
--
-- :reads event
-- :column event_id BIGINT  the event of the begin
-- :column dur_ns BIGINT    time from the begin to its end
-- :column end_ns BIGINT    time of the end
with edge as (
    -- Begins and ends, with the number of open begins after each.
    select
        event_id,
        track_id,
        ph,
        start_ns,
        sum(case ph when 'B' then 1 else -1 end) over (
            partition by track_id order by start_ns, event_id rows unbounded preceding
        ) as level_after
    from event
    where ph in ('B', 'E') and start_ns is not null
),

-- Begins and ends, each with the next one of its level.
edge_pair as (
    select
        event_id,
        ph,
        start_ns,
        lead(ph) over in_level as next_ph,
        lead(start_ns) over in_level as next_ns
    from edge
    window in_level as (
        partition by track_id, case ph when 'B' then level_after else level_after + 1 end order by start_ns, event_id
    )
)

select
    event_id,
    next_ns - start_ns as dur_ns,
    next_ns as end_ns
from edge_pair
where ph = 'B' and next_ph = 'E'
order by event_id
