-- Times when a device does nothing, cut where the reason changes. With `gpu_busy` they fill the observed time.
--
-- Times when a device does nothing, cut where the reason changes: what the host did until it launched the work that
-- ends the gap, and what that work then waited for.
--
-- The observed time of a device reaches from the first step or its first work to the last step's end or its last work.
-- Until the work that ends a gap is launched, the device waits for the host. What the launching thread does then is the
-- cause, and where it shows nothing, what the main thread does: `load_data`, `sync` (inside a call that returns when
-- the GPU is done, and no longer), `cpu_tensor` (arithmetic on CPU tensors), `op` (other ops and calls), `python`. Step
-- and phase are those that the thread is in.
--
-- From the launch on, step and phase are those of the work. Until 50 us after the call returned (ten times what a
-- launch usually takes) the cause is `launch`, or `sync` while a blocking call is not over. After that, or if the call
-- had returned before the gap began, the work waits on the GPU for an event, another stream or the gap between two
-- kernels: `queued`. If that takes over 50 us although no other device ended work in the last 50 us of it, nothing in
-- the file explains it: `unobserved`, as the device may have done work that was not recorded. Gaps before work whose
-- launch is not in the trace are `unknown`. The gap after the last work has parts of the main thread only.
--
-- :reads gpu_busy, timed, gpu_op, launch, nesting, label, step, host_activity, main_track
-- :column device BIGINT    device number; -1 when the events name none
-- :column gap_ns BIGINT    start of the whole gap; a gap has one part or several
-- :column start_ns BIGINT  start of the part
-- :column end_ns BIGINT    end of the part
-- :column cause VARCHAR    load_data, sync, cpu_tensor, op, python, launch, queued, unobserved, unknown; the
--                          glossary explains them
-- :column track_id BIGINT  the thread that the device waits for; NULL when the launch is unknown
-- :column step BIGINT      step that the thread is in; after the launch, of the work; NULL outside every step or when
--                          unknown
-- :column phase VARCHAR    phase, likewise
-- :column next_id BIGINT   the GPU event that ends the gap; NULL for the gap after the last one
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
        on abs(gpu_busy.start_ns - edges.start_ns) < 864000000000000
    group by gpu_busy.device
),

bounded as (
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
        bounded.device,
        bounded.start_ns,
        coalesce(bounded.end_ns, observed.end_ns) as end_ns,
        bounded.end_ns is null as is_last
    from bounded
    inner join observed on bounded.device = observed.device
    where coalesce(bounded.end_ns, observed.end_ns) > bounded.start_ns
),

starting as (
    select
        coalesce(gpu_op.device, -1) as device,
        timed.start_ns,
        min(timed.event_id) as event_id
    from gpu_op
    inner join timed on gpu_op.event_id = timed.event_id
    where timed.dur_ns > 0
    group by coalesce(gpu_op.device, -1), timed.start_ns
),

-- The work that ends a gap and its launch. Kept, so that only one large join at a time needs memory.
launched as materialized (
    select
        starting.device,
        starting.start_ns,
        starting.event_id,
        launch.link is not null as is_linked,
        launch.launch_start_ns,
        launch.launch_start_ns + launch.launch_dur_ns as returned_ns,
        coalesce(launch.runtime_id, launch.op_id) as launch_id
    from starting
    inner join launch on starting.event_id = launch.event_id
),

placed as materialized (
    select
        launched.* exclude (launch_id),
        nesting.track_id
    from launched
    left join nesting on launched.launch_id = nesting.event_id
),

ended as materialized (
    select
        gap.device,
        gap.start_ns,
        gap.end_ns,
        placed.event_id as next_id,
        coalesce(placed.track_id, main_track.track_id) as track_id,
        not gap.is_last and not coalesce(placed.is_linked, false) as is_unlinked,
        placed.returned_ns,
        case
            when gap.is_last then gap.end_ns
            else greatest(gap.start_ns, least(gap.end_ns, coalesce(placed.launch_start_ns, gap.end_ns)))
        end as launched_ns,
        case
            when placed.returned_ns <= gap.start_ns then launched_ns
            else greatest(launched_ns, least(gap.end_ns, coalesce(placed.returned_ns + 50000, gap.end_ns)))
        end as due_ns
    from gap
    left join placed on gap.device = placed.device and gap.end_ns = placed.start_ns and not gap.is_last
    left join main_track on true
),

-- --- what the host did until the launch ------------------------------------------------------------------------------

waiting as (
    select
        device,
        start_ns as gap_ns,
        next_id,
        track_id,
        start_ns,
        launched_ns as end_ns
    from ended
    where launched_ns > start_ns and not is_unlinked
),

-- Pieces of a thread are numbered, so that a stretch of its time is a range of numbers.
reached as (
    select
        waiting.*,
        host_activity.number as last_number
    from waiting
    asof inner join host_activity
        on waiting.track_id = host_activity.track_id and waiting.end_ns > host_activity.start_ns
),

covered as (
    select
        reached.* exclude (last_number),
        unnest(range(host_activity.number, reached.last_number + 1)) as number
    from reached
    asof inner join host_activity
        on reached.track_id = host_activity.track_id and reached.start_ns >= host_activity.start_ns
),

own as materialized (
    select
        covered.device,
        covered.gap_ns,
        covered.next_id,
        covered.track_id,
        greatest(covered.start_ns, host_activity.start_ns) as start_ns,
        least(covered.end_ns, coalesce(host_activity.end_ns, covered.end_ns)) as end_ns,
        host_activity.kind,
        host_activity.step,
        host_activity.phase
    from covered
    inner join host_activity
        on covered.track_id = host_activity.track_id and covered.number = host_activity.number
),

idle_thread as (
    select
        own.device,
        own.gap_ns,
        own.next_id,
        main_track.track_id,
        own.start_ns,
        own.end_ns
    from own
    cross join main_track
    where own.kind = 'nothing' and own.track_id != main_track.track_id
),

main_reached as (
    select
        idle_thread.*,
        host_activity.number as last_number
    from idle_thread
    asof inner join host_activity
        on idle_thread.track_id = host_activity.track_id and idle_thread.end_ns > host_activity.start_ns
),

main_covered as (
    select
        main_reached.* exclude (last_number),
        unnest(range(host_activity.number, main_reached.last_number + 1)) as number
    from main_reached
    asof inner join host_activity
        on main_reached.track_id = host_activity.track_id and main_reached.start_ns >= host_activity.start_ns
),

on_host as (
    select own.* from own
    cross join main_track
    where own.kind != 'nothing' or own.track_id = main_track.track_id
    union all
    select
        main_covered.device,
        main_covered.gap_ns,
        main_covered.next_id,
        main_covered.track_id,
        greatest(main_covered.start_ns, host_activity.start_ns),
        least(main_covered.end_ns, coalesce(host_activity.end_ns, main_covered.end_ns)),
        host_activity.kind,
        host_activity.step,
        host_activity.phase
    from main_covered
    inner join host_activity
        on main_covered.track_id = host_activity.track_id and main_covered.number = host_activity.number
),

-- --- what the work waited for after its launch -----------------------------------------------------------------------

after_launch as (
    select
        ended.*,
        case
            when host_activity.kind = 'sync' then greatest(ended.launched_ns, least(ended.due_ns, ended.returned_ns))
            else ended.launched_ns
        end as blocked_to_ns
    from ended
    asof left join host_activity
        on ended.track_id = host_activity.track_id and ended.launched_ns >= host_activity.start_ns
    where ended.end_ns > ended.launched_ns and not ended.is_unlinked
),

-- One device may wait for another, as for a copy between them.
elsewhere as (
    select
        after_launch.device,
        after_launch.start_ns
    from after_launch
    inner join observed as other on after_launch.device != other.device
    asof inner join gpu_busy
        on other.device = gpu_busy.device and after_launch.end_ns >= gpu_busy.start_ns
    where after_launch.end_ns - after_launch.due_ns > 50000 and gpu_busy.end_ns >= after_launch.end_ns - 50000
    group by after_launch.device, after_launch.start_ns
),

on_device as (
    select
        after_launch.device,
        after_launch.start_ns as gap_ns,
        after_launch.next_id,
        after_launch.track_id,
        unnest([
            {
                'cause': 'sync',
                'start_ns': after_launch.launched_ns,
                'end_ns': after_launch.blocked_to_ns
            },
            {
                'cause': 'launch',
                'start_ns': after_launch.blocked_to_ns,
                'end_ns': after_launch.due_ns
            },
            {
                'cause': case
                    when after_launch.end_ns - after_launch.due_ns > 50000 and elsewhere.device is null
                        then 'unobserved'
                    else 'queued'
                end,
                'start_ns': after_launch.due_ns,
                'end_ns': after_launch.end_ns
            }
        ]) as part
    from after_launch
    left join elsewhere on after_launch.device = elsewhere.device and after_launch.start_ns = elsewhere.start_ns
)

select
    device,
    gap_ns,
    start_ns,
    end_ns,
    case kind when 'nothing' then 'python' else kind end as cause,
    track_id,
    step,
    phase,
    next_id
from on_host
where end_ns > start_ns
union all
select
    on_device.device,
    on_device.gap_ns,
    on_device.part.start_ns,
    on_device.part.end_ns,
    on_device.part.cause,
    on_device.track_id,
    label.step,
    label.phase,
    on_device.next_id
from on_device
left join label on on_device.next_id = label.event_id
where on_device.part.end_ns > on_device.part.start_ns
union all
select
    ended.device,
    ended.start_ns as gap_ns,
    ended.start_ns,
    ended.end_ns,
    'unknown',
    null,
    label.step,
    label.phase,
    ended.next_id
from ended
left join label on ended.next_id = label.event_id
where ended.is_unlinked
order by all
