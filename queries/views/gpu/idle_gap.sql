-- Every gap without work, on each device (all streams) and on each stream, with its cause.
--
-- A gap ends at the start of work, and is split at the launch of that work as in `idle_part`: the host had not launched
-- the work, or the launch took effect (`host`); the host was in a synchronising call (`sync`); or the work waited in
-- its queue. The largest part is the cause.
--
-- If the work waited for over 50 us and no device was active in the last 50 us, the cause is not visible in the file
-- (`unobserved`). Otherwise the work waited for the last work on the device that ended in the gap, on another stream:
-- communication, or any other work (`kernel`). If no work ended in the gap, a gap under 30 us is the usual time between
-- two kernels (also `kernel`, HTA's threshold), and a longer gap is `other`. Overlapping work leaves no gap, and there
-- is no gap before the first work of a stream.
--
-- :reads gpu_event, gpu_busy, cpu_event, gpu_gap
-- :column rank RANK
-- :column scope VARCHAR      device: no stream of the device works; stream: this stream does not work, but others may
-- :column device DEVICE      -1 without a device
-- :column stream BIGINT      stream; NULL for scope device, or if the events have no stream
-- :column start_ns BIGINT    start
-- :column end_ns BIGINT      end
-- :column next_id BIGINT     GPU event at the end of the gap; NULL for the gap after the last event
-- :column step STEP          of that event, or at the time of the last gap; NULL outside every step or without a launch
-- :column phase PHASE        of that event; NULL outside every step or without a launch
-- :column cause GAP_CAUSE    largest part of the gap
-- :column host_ns BIGINT     part of the gap until the launch of that event took effect
-- :column launch_ns BIGINT   part of `host_ns` after the start of the launching call
-- :column sync_ns BIGINT     part of the gap with the host inside a call that waits for the GPU
-- :column queued_ns BIGINT   part of the gap with launched work waiting for other GPU work
-- :column unobserved_ns BIGINT
--                            part of the gap with launched work waiting for no reason visible in the file
-- :column unknown_ns BIGINT  part of the gap before work without a known launch
with work as (
    -- GPU events with a duration.
    select * from gpu_event
    where dur_ns > 0
),

-- One row per event, with the latest end of the stream's work up to and including the event.
work_so_far as (
    select
        *,
        max(end_ns) over (
            partition by rank, device, stream order by start_ns, event_id rows unbounded preceding
        ) as reached_ns
    from work
),

-- One row per work that ends a gap of its stream, with the start of the gap.
stream_gap as (
    select
        *,
        lag(reached_ns) over (partition by rank, device, stream order by start_ns, event_id) as since_ns
    from work_so_far
    qualify start_ns > since_ns
),

-- Calls that wait for the GPU, with the total duration of earlier calls on the thread.
wait_call as (
    select
        rank,
        track_id,
        start_ns,
        end_ns,
        sum(end_ns - start_ns) over (
            partition by rank, track_id order by start_ns, event_id
            rows unbounded preceding
        ) - (end_ns - start_ns) as before_ns
    from cpu_event
    where
        category in ('cuda_runtime', 'cuda_driver')
        and is_blocking
        and end_ns > start_ns
),

-- Gaps of streams, with the launch of the work at the end.
next_launch as (
    select
        gap.rank,
        gap.device,
        gap.stream,
        gap.event_id as next_id,
        gap.since_ns as start_ns,
        gap.start_ns as end_ns,
        gap.step,
        gap.phase,
        gap.link is null as is_unlinked,
        gap.call_track_id as track_id,
        launched_in_gap(gap.since_ns, gap.start_ns, gap.launch_start_ns) as launched_ns,
        launch_due_in_gap(
            gap.since_ns, gap.start_ns, launched_ns, gap.launch_start_ns + gap.launch_dur_ns
        ) - launched_ns as launching_ns
    from stream_gap as gap
),

-- Total time of the launching thread in waiting calls up to the start of the gap, and then up to the launch.
gap_start as (
    select
        next_launch.*,
        coalesce(wait_call.before_ns + least(next_launch.start_ns, wait_call.end_ns) - wait_call.start_ns, 0) as sync_0
    from next_launch
    asof left join wait_call
        on
            next_launch.rank = wait_call.rank
            and next_launch.track_id = wait_call.track_id
            and next_launch.start_ns >= wait_call.start_ns
),

-- one row per gap of a stream, with the waiting time before the launch
gap_launch as (
    select
        gap_start.*,
        -- if the launching call itself waits, count the time until it returns, as in idle_part
        case
            when gap_start.launched_ns < wait_call.end_ns
                then least(gap_start.launching_ns, wait_call.end_ns - gap_start.launched_ns)
            else 0
        end as in_call_ns,
        coalesce(wait_call.before_ns + least(gap_start.launched_ns, wait_call.end_ns) - wait_call.start_ns, 0)
        - gap_start.sync_0 as blocked_ns
    from gap_start
    asof left join wait_call
        on
            gap_start.rank = wait_call.rank
            and gap_start.track_id = wait_call.track_id
            and gap_start.launched_ns >= wait_call.start_ns
),

-- Latest end of the busy time of any device that started up to this point.
busy_stretch as (
    select
        rank,
        start_ns,
        max(end_ns) over (partition by rank order by start_ns) as end_ns
    from gpu_busy
),

-- Parts of the gaps of streams and of devices.
part as (
    select
        'stream' as scope,
        gap_launch.rank,
        gap_launch.device,
        gap_launch.stream,
        gap_launch.start_ns,
        gap_launch.end_ns,
        gap_launch.next_id,
        gap_launch.step,
        gap_launch.phase,
        case
            when gap_launch.is_unlinked then 0
            else
                gap_launch.launched_ns - gap_launch.start_ns - gap_launch.blocked_ns
                + gap_launch.launching_ns - gap_launch.in_call_ns
        end as host_ns,
        case when gap_launch.is_unlinked then 0 else gap_launch.launching_ns - gap_launch.in_call_ns end as launch_ns,
        case when gap_launch.is_unlinked then 0 else gap_launch.blocked_ns + gap_launch.in_call_ns end as sync_ns,
        case
            when gap_launch.is_unlinked then 0
            else gap_launch.end_ns - gap_launch.launched_ns - gap_launch.launching_ns
        end as waited_ns,
        coalesce(
            waited_ns > launch_effect_ns() and busy_stretch.end_ns < gap_launch.end_ns - launch_effect_ns(), false
        ) as is_unobserved,
        case when gap_launch.is_unlinked then gap_launch.end_ns - gap_launch.start_ns else 0 end as unknown_ns
    from gap_launch
    asof left join busy_stretch on gap_launch.rank = busy_stretch.rank and gap_launch.end_ns > busy_stretch.start_ns
    union all
    select
        'device',
        rank,
        device,
        null,
        start_ns,
        end_ns,
        next_id,
        step,
        phase,
        load_data_ns + profiler_ns + other_ranks_ns + other_thread_ns + cpu_tensor_ns + op_ns + python_ns + launch_ns,
        launch_ns,
        sync_ns,
        queued_ns + unobserved_ns,
        unobserved_ns > 0,
        unknown_ns
    from gpu_gap
),

-- Class of the work ending at each time on a device; communication if several end.
work_end as (
    select
        rank,
        device,
        end_ns,
        arg_min(class, (class != 'communication', event_id)) as class
    from work
    group by rank, device, end_ns
)

select
    part.rank,
    part.scope,
    part.device,
    part.stream,
    part.start_ns,
    part.end_ns,
    part.next_id,
    part.step,
    part.phase,
    case
        when part.unknown_ns > 0 then 'unknown'
        when part.sync_ns >= greatest(part.host_ns, part.waited_ns) then 'sync'
        when part.host_ns >= part.waited_ns then 'host'
        when part.is_unobserved then 'unobserved'
        when work_end.end_ns > part.start_ns and work_end.class = 'communication' then 'communication'
        when work_end.end_ns > part.start_ns or part.end_ns - part.start_ns < kernel_spacing_ns() then 'kernel'
        else 'other'
    end as cause,
    part.host_ns::bigint as host_ns,
    part.launch_ns::bigint as launch_ns,
    part.sync_ns::bigint as sync_ns,
    case when part.is_unobserved then 0 else part.waited_ns end::bigint as queued_ns,
    case when part.is_unobserved then part.waited_ns else 0 end::bigint as unobserved_ns,
    part.unknown_ns::bigint as unknown_ns
from part
asof left join work_end
    on part.rank = work_end.rank and part.device = work_end.device and part.end_ns >= work_end.end_ns
