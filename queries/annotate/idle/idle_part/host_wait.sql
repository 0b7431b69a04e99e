-- One row per part of a gap before the launch of the work that ends it: what the device waits for on a thread then.
--
-- The thread is the launching one; where that does nothing, it is the main thread. Pieces of a thread are numbered, so
-- that a stretch of its time is a range of numbers.
--
-- :reads launched_gap, host_activity, main_track
-- :only_with launched_gap
-- :column device BIGINT    device number; -1 when the events name none
-- :column gap_ns BIGINT    start of the gap
-- :column next_id BIGINT   the GPU event that ends the gap; NULL for the gap after the last one
-- :column track_id BIGINT  the thread
-- :column start_ns BIGINT  start of the part
-- :column end_ns BIGINT    its end
-- :column kind VARCHAR     what the thread does, as in `host_activity`
-- :column step BIGINT      the thread's step; NULL outside every step
-- :column phase PHASE      its phase; NULL outside every step
with waiting as (
    select
        device,
        start_ns as gap_ns,
        next_id,
        track_id,
        start_ns,
        launched_ns as end_ns
    from launched_gap
    where launched_ns > start_ns and not is_unlinked
),

-- Those times with the last piece of the thread in them, and then one row for each piece in them.
waiting_with_last as (
    select
        waiting.*,
        host_activity.number as last_number
    from waiting
    asof inner join host_activity
        on waiting.track_id = host_activity.track_id and waiting.end_ns > host_activity.start_ns
),

waiting_number as (
    select
        waiting_with_last.* exclude (last_number),
        unnest(range(host_activity.number, waiting_with_last.last_number + 1)) as number
    from waiting_with_last
    asof inner join host_activity
        on waiting_with_last.track_id = host_activity.track_id and waiting_with_last.start_ns >= host_activity.start_ns
),

-- What the launching thread does then.
own_part as materialized (
    select
        waiting_number.device,
        waiting_number.gap_ns,
        waiting_number.next_id,
        waiting_number.track_id,
        greatest(waiting_number.start_ns, host_activity.start_ns) as start_ns,
        least(waiting_number.end_ns, coalesce(host_activity.end_ns, waiting_number.end_ns)) as end_ns,
        host_activity.kind,
        host_activity.step,
        host_activity.phase
    from waiting_number
    inner join host_activity
        on waiting_number.track_id = host_activity.track_id and waiting_number.number = host_activity.number
),

-- Where that is nothing, the same is asked of the main thread.
nothing_part as (
    select
        own_part.device,
        own_part.gap_ns,
        own_part.next_id,
        main_track.track_id,
        own_part.start_ns,
        own_part.end_ns
    from own_part
    cross join main_track
    where own_part.kind = 'nothing' and own_part.track_id != main_track.track_id
),

main_with_last as (
    select
        nothing_part.*,
        host_activity.number as last_number
    from nothing_part
    asof inner join host_activity
        on nothing_part.track_id = host_activity.track_id and nothing_part.end_ns > host_activity.start_ns
),

main_number as (
    select
        main_with_last.* exclude (last_number),
        unnest(range(host_activity.number, main_with_last.last_number + 1)) as number
    from main_with_last
    asof inner join host_activity
        on main_with_last.track_id = host_activity.track_id and main_with_last.start_ns >= host_activity.start_ns
)

select own_part.* from own_part
cross join main_track
where own_part.kind != 'nothing' or own_part.track_id = main_track.track_id
union all
select
    main_number.device,
    main_number.gap_ns,
    main_number.next_id,
    main_number.track_id,
    greatest(main_number.start_ns, host_activity.start_ns),
    least(main_number.end_ns, coalesce(host_activity.end_ns, main_number.end_ns)),
    host_activity.kind,
    host_activity.step,
    host_activity.phase
from main_number
inner join host_activity
    on main_number.track_id = host_activity.track_id and main_number.number = host_activity.number
