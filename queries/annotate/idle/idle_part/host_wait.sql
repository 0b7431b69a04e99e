-- Parts of a gap before the launch of the gap's next work, with the activity of the thread the device waits for.
--
-- The device waits for the launching thread, or for the main thread while the launching thread has no events. The
-- pieces of a thread are numbered: a stretch of time is a range of numbers.
--
-- :reads launched_gap, host_activity, main_track
-- :only_with launched_gap
-- :column device DEVICE    -1 without a device
-- :column gap_ns BIGINT    start of the gap
-- :column next_id BIGINT   the GPU event at the end of the gap; NULL for the gap after the last event
-- :column track_id BIGINT  the thread
-- :column start_ns BIGINT  start of the part
-- :column end_ns BIGINT    end of the part
-- :column kind VARCHAR     activity of the thread, as in `host_activity`
-- :column step STEP        of the thread; NULL outside every step
-- :column phase PHASE      of the thread; NULL outside every step
with waiting_time as (
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

-- The waiting times with the number of the thread's last piece, then one row per piece.
waiting_range as (
    select
        waiting_time.*,
        host_activity.number as last_number
    from waiting_time
    asof inner join host_activity
        on waiting_time.track_id = host_activity.track_id and waiting_time.end_ns > host_activity.start_ns
),

waiting_number as (
    select
        waiting_range.* exclude (last_number),
        unnest(range(host_activity.number, waiting_range.last_number + 1)) as number
    from waiting_range
    asof inner join host_activity
        on waiting_range.track_id = host_activity.track_id and waiting_range.start_ns >= host_activity.start_ns
),

-- Activity of the launching thread.
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

-- Parts without events on the launching thread, to be filled from the main thread.
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
    where own_part.kind in ('nothing', 'unrecorded') and own_part.track_id != main_track.track_id
),

main_range as (
    select
        nothing_part.*,
        host_activity.number as last_number
    from nothing_part
    asof inner join host_activity
        on nothing_part.track_id = host_activity.track_id and nothing_part.end_ns > host_activity.start_ns
),

main_number as (
    select
        main_range.* exclude (last_number),
        unnest(range(host_activity.number, main_range.last_number + 1)) as number
    from main_range
    asof inner join host_activity
        on main_range.track_id = host_activity.track_id and main_range.start_ns >= host_activity.start_ns
)

select own_part.* from own_part
cross join main_track
where own_part.kind not in ('nothing', 'unrecorded') or own_part.track_id = main_track.track_id
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
