-- GPU events whose times contradict their launches. The importer corrects or removes the times.
--
--   before_launch  work starting before its own launch, or so long after the launch that no wait can explain it; the
--                  duration is removed
--   other_clock    if all work of a device contradicts its launches, the clocks of device and CPU differ: all events of
--                  the device are shifted by one time, chosen to make as much work as possible follow its launches.
--                  Among equally good shifts, the smallest is used
--
-- A shift needs all work of the device to be wrong, not only the majority: a single launch that precedes its work shows
-- that the clocks agree.
--
-- :reads event, gpu_op
-- :column event_id BIGINT      the event
-- :column rule VARCHAR         before_launch or other_clock
-- :column start_ns BIGINT      corrected start
-- :column dur_ns BIGINT        corrected duration; NULL if the event has no valid time
-- :column given_dur_ns BIGINT  duration in the file
with launch_call as (
    select
        correlation,
        min(start_ns) as start_ns,
        bool_or(is_graph_launch(name)) as is_graph
    from event
    where
        category in ('cuda_runtime', 'cuda_driver')
        and correlation > 0
        and track_id is not null
        and dur_ns is not null
    group by correlation
),

-- GPU work with a launch, and the time from the start of the launch to the start of the work.
launched_work as materialized (
    select
        event.event_id,
        event.track_id,
        event.correlation,
        launch_call.is_graph,
        device_of(gpu_op.device) as device,
        event.start_ns - launch_call.start_ns as lag_ns
    from event
    inner join launch_call on event.correlation = launch_call.correlation
    left join gpu_op on event.event_id = gpu_op.event_id
    where event.category in ('kernel', 'gpu_memcpy', 'gpu_memset') and event.dur_ns is not null
),

-- The longest possible time from a launch to its work, if the clocks agree.
lag_limit as (
    select coalesce(max(start_ns) - min(start_ns), 0) + longest_queue_ns() as most_ns
    from launch_call
),

-- Devices whose work never follows its launch.
foreign_device as (
    select launched_work.device
    from launched_work
    cross join lag_limit
    group by launched_work.device
    having not bool_or(launched_work.lag_ns between -launch_skew_ns() and lag_limit.most_ns)
),

-- Work of these devices. Each row counts the work that would follow its launches if the row's lag were the clock
-- difference.
counted_work as (
    select
        launched_work.device,
        launched_work.lag_ns,
        count(*) over (
            partition by launched_work.device order by launched_work.lag_ns
            range between current row and lag_limit.most_ns following
        ) as follower_count
    from launched_work
    cross join lag_limit
    where launched_work.device in (select foreign_device.device from foreign_device)
),

-- Clock lead of each of these devices.
device_clock as (
    select
        device,
        arg_max(lag_ns, (follower_count, -abs(lag_ns))) as ahead_ns
    from counted_work
    group by device
),

-- Work before or too long after its launch. If other work of the launch (except graphs) follows it correctly, two
-- launches share a number, and the work is kept.
misplaced_work as (
    select
        launched_work.event_id,
        launched_work.is_graph,
        launched_work.lag_ns - coalesce(device_clock.ahead_ns, 0)
        between -launch_skew_ns() and lag_limit.most_ns as is_follower,
        bool_or(is_follower) over (partition by launched_work.correlation) as has_follower
    from launched_work
    cross join lag_limit
    left join device_clock on launched_work.device = device_clock.device
    qualify not is_follower and (launched_work.is_graph or not has_follower)
),

-- Streams of devices with a shifted clock.
moved_track as (
    select
        event.track_id,
        any_value(device_clock.ahead_ns) as ahead_ns
    from event
    inner join gpu_op on event.event_id = gpu_op.event_id
    inner join device_clock on device_of(gpu_op.device) = device_clock.device
    group by event.track_id
)

select
    event.event_id,
    'before_launch' as rule,
    event.start_ns,
    null::bigint as dur_ns,
    event.dur_ns as given_dur_ns
from event
where event.event_id in (select misplaced_work.event_id from misplaced_work)
union all
select
    event.event_id,
    'other_clock',
    event.start_ns - moved_track.ahead_ns,
    event.dur_ns,
    event.dur_ns as given_dur_ns
from event
inner join moved_track on event.track_id = moved_track.track_id
where
    event.category in (
        'kernel', 'gpu_memcpy', 'gpu_memset', 'gpu_user_annotation', 'cuda_sync', 'cuda_profiler_range'
    )
    and event.dur_ns is not null
    and event.event_id not in (select misplaced_work.event_id from misplaced_work)
order by event_id
