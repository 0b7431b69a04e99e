-- Times when a device does nothing, cut where the reason changes. With `gpu_busy` they fill the observed time.
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
-- :reads launched_gap, host_wait, gpu_busy, label, host_activity
-- :only_with launched_gap or host_wait
-- :column device BIGINT    device number; -1 when the events name none
-- :column gap_ns BIGINT    start of the whole gap; a gap has one part or several
-- :column start_ns BIGINT  start of the part
-- :column end_ns BIGINT    end of the part
-- :column cause IDLE_CAUSE why, as the glossary explains
-- :column track_id BIGINT  the thread that the device waits for; NULL when the launch is unknown
-- :column step BIGINT      step that the thread is in; after the launch, of the work; NULL outside every step or when
--                          unknown
-- :column phase VARCHAR    phase, likewise
-- :column next_id BIGINT   the GPU event that ends the gap; NULL for the gap after the last one
with after_launch as materialized (
    select
        launched_gap.*,
        case
            when host_activity.kind = 'sync'
                then greatest(launched_gap.launched_ns, least(launched_gap.due_ns, launched_gap.returned_ns))
            else launched_gap.launched_ns
        end as blocked_to_ns
    from launched_gap
    asof left join host_activity
        on launched_gap.track_id = host_activity.track_id and launched_gap.launched_ns >= host_activity.start_ns
    where launched_gap.end_ns > launched_gap.launched_ns and not launched_gap.is_unlinked
),

gpu as (
    select distinct device from gpu_busy
),

-- Where the work is that ends a gap. Kept, so that the database joins few rows with all labels, and only once.
ending_work as materialized (
    select
        label.event_id,
        label.step,
        label.phase
    from label
    where label.event_id in (select next_id from launched_gap)
),

-- Gaps in whose last 50 us another device ended work. One device may wait for another, as for a copy between them.
elsewhere as (
    select
        after_launch.device,
        after_launch.start_ns
    from after_launch
    inner join gpu as other on after_launch.device != other.device
    asof inner join gpu_busy
        on other.device = gpu_busy.device and after_launch.end_ns >= gpu_busy.start_ns
    where
        after_launch.end_ns - after_launch.due_ns > launch_effect_ns()
        and gpu_busy.end_ns >= after_launch.end_ns - launch_effect_ns()
    group by after_launch.device, after_launch.start_ns
),

on_device as materialized (
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
                    when after_launch.end_ns - after_launch.due_ns > launch_effect_ns() and elsewhere.device is null
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
from host_wait
where end_ns > start_ns
union all
select
    on_device.device,
    on_device.gap_ns,
    on_device.part.start_ns,
    on_device.part.end_ns,
    on_device.part.cause,
    on_device.track_id,
    ending_work.step,
    ending_work.phase,
    on_device.next_id
from on_device
left join ending_work on on_device.next_id = ending_work.event_id
where on_device.part.end_ns > on_device.part.start_ns
union all
select
    launched_gap.device,
    launched_gap.start_ns as gap_ns,
    launched_gap.start_ns,
    launched_gap.end_ns,
    'unknown',
    null,
    ending_work.step,
    ending_work.phase,
    launched_gap.next_id
from launched_gap
left join ending_work on launched_gap.next_id = ending_work.event_id
where launched_gap.is_unlinked
order by device, start_ns, end_ns, next_id, track_id
