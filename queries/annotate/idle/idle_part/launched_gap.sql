-- Idle gaps of each device, with the work at the end of the gap and the work's launch time.
--
-- The observed time of a device reaches from the first step or the device's first work to the end of the last step or
-- of the device's last work.
--
-- :reads gpu_busy, step, timed, gpu_op, launch, nesting, main_track, host_activity
-- :only_with gpu_busy
-- :column device DEVICE        -1 without a device
-- :column start_ns BIGINT      start of the gap
-- :column end_ns BIGINT        end of the gap
-- :column next_id BIGINT       the GPU event at the end of the gap; NULL for the gap after the last event
-- :column track_id BIGINT      thread that launched the event; the main thread if unknown; NULL without a main thread
-- :column is_unlinked BOOLEAN  the launch of the event is not in the trace
-- :column returned_ns BIGINT   time at which the launching call returned; NULL if unknown
-- :column launched_ns BIGINT   time at which the launching call started, or at which the profiler's own work in the
--                              call ended, clamped to the gap; the end of the gap if unknown
-- :column due_ns BIGINT        time at which the launch should have taken effect: `launched_ns` if the call returned
--                              before the gap began; otherwise 50 us after the return, but no later than the end of the
--                              gap
with observed_time as (
    select
        gpu_busy.device,
        least(min(gpu_busy.start_ns), min(edges.start_ns)) as start_ns,
        greatest(max(gpu_busy.end_ns), max(edges.end_ns)) as end_ns
    from gpu_busy
    left join (
        select
            min(start_ns) as start_ns,
            max(end_ns) as end_ns
        from step
    ) as edges
        -- If the two are over ten days apart, their clocks differ.
        on abs(gpu_busy.start_ns - edges.start_ns) < longest_recording_ns()
    group by gpu_busy.device
),

-- Times between two stretches of work, and before the first stretch; the last has a NULL end.
pause as (
    select
        device,
        end_ns as start_ns,
        lead(start_ns) over (partition by device order by start_ns) as end_ns
    from gpu_busy
    union all
    select
        observed_time.device,
        observed_time.start_ns,
        min(gpu_busy.start_ns)
    from observed_time
    inner join gpu_busy on observed_time.device = gpu_busy.device
    group by observed_time.device, observed_time.start_ns
),

gap as (
    select
        pause.device,
        pause.start_ns,
        coalesce(pause.end_ns, observed_time.end_ns) as end_ns,
        pause.end_ns is null as is_last
    from pause
    inner join observed_time on pause.device = observed_time.device
    where coalesce(pause.end_ns, observed_time.end_ns) > pause.start_ns
),

-- The first event among work with the same start.
first_work as (
    select
        coalesce(gpu_op.device, -1) as device,
        timed.start_ns,
        min(timed.event_id) as event_id
    from gpu_op
    inner join timed on gpu_op.event_id = timed.event_id
    where timed.end_ns > timed.start_ns
    group by coalesce(gpu_op.device, -1), timed.start_ns
),

-- Work that may end a gap, with its launch. Materialized: only one large join at a time then needs memory.
work_launch as materialized (
    select
        first_work.device,
        first_work.start_ns,
        first_work.event_id,
        launch.link is not null as is_linked,
        launch.launch_start_ns,
        launch.launch_start_ns + launch.launch_dur_ns as returned_ns,
        coalesce(launch.runtime_id, launch.op_id) as launch_id
    from first_work
    inner join launch on first_work.event_id = launch.event_id
),

-- The same work with its thread. While the profiler itself works in the call, the program cannot launch.
work_on_thread as materialized (
    select
        placed.* replace (
            case
                when profiler.start_ns >= placed.launch_start_ns then least(profiler.end_ns, placed.start_ns)
                else placed.launch_start_ns
            end as launch_start_ns
        )
    from (
        select
            work_launch.* exclude (launch_id),
            nesting.track_id
        from work_launch
        left join nesting on work_launch.launch_id = nesting.event_id
    ) as placed
    asof left join (select * from host_activity where kind = 'profiler') as profiler
        on placed.track_id = profiler.track_id and placed.returned_ns > profiler.start_ns
)

select
    gap.device,
    gap.start_ns,
    gap.end_ns,
    work_on_thread.event_id as next_id,
    coalesce(work_on_thread.track_id, main_track.track_id) as track_id,
    not gap.is_last and not coalesce(work_on_thread.is_linked, false) as is_unlinked,
    work_on_thread.returned_ns,
    case
        when gap.is_last then gap.end_ns
        else launched_in_gap(gap.start_ns, gap.end_ns, work_on_thread.launch_start_ns)
    end as launched_ns,
    launch_due_in_gap(gap.start_ns, gap.end_ns, launched_ns, work_on_thread.returned_ns) as due_ns
from gap
left join work_on_thread
    on gap.device = work_on_thread.device and gap.end_ns = work_on_thread.start_ns and not gap.is_last
left join main_track on true
