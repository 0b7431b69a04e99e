-- One row per time when a device does nothing, with the work that ends it and when that was launched.
--
-- The observed time of a device reaches from the first step or its first work to the last step's end or its last work.
--
-- :reads gpu_busy, step, timed, gpu_op, launch, nesting, main_track, host_activity
-- :only_with gpu_busy
-- :column device BIGINT        device number; -1 when the events name none
-- :column start_ns BIGINT      start of the gap
-- :column end_ns BIGINT        its end
-- :column next_id BIGINT       the GPU event that ends it; NULL for the gap after the last one
-- :column track_id BIGINT      thread that launched that event; the main thread when unknown; NULL when there is none
-- :column is_unlinked BOOLEAN  the launch of that event is not in the trace
-- :column returned_ns BIGINT   when the launching call returned; NULL when unknown
-- :column launched_ns BIGINT   when the launching call started, or the profiler itself ended its work in the call,
--                              moved into the gap; the end of the gap when unknown
-- :column due_ns BIGINT        when the launch should have taken effect: `launched_ns` if the call had returned before
--                              the gap began; else 50 us after it returned, but not after the gap
with observed as (
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
        -- over ten days apart, the clocks of the two are different ones
        on abs(gpu_busy.start_ns - edges.start_ns) < longest_recording_ns()
    group by gpu_busy.device
),

-- Times between two stretches of work, and before the first; NULL ends the last.
pause as (
    select
        device,
        end_ns as start_ns,
        lead(start_ns) over (partition by device order by start_ns) as end_ns
    from gpu_busy
    union all
    select
        observed.device,
        observed.start_ns,
        min(gpu_busy.start_ns)
    from observed
    inner join gpu_busy on observed.device = gpu_busy.device
    group by observed.device, observed.start_ns
),

gap as (
    select
        pause.device,
        pause.start_ns,
        coalesce(pause.end_ns, observed.end_ns) as end_ns,
        pause.end_ns is null as is_last
    from pause
    inner join observed on pause.device = observed.device
    where coalesce(pause.end_ns, observed.end_ns) > pause.start_ns
),

-- Of the work that starts at one time, the first event.
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

-- Work that may end a gap, and its launch. Kept, so that only one large join at a time needs memory.
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

-- The same with the thread. While the profiler itself works in the call, the program cannot launch.
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
