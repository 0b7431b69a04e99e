-- Idle time of each device, cut where the cause changes. Together with `gpu_busy`, it fills the observed time.
--
-- The observed time of a device reaches from the first step or the device's first work to the end of the last step or
-- of the device's last work. Before the launch of the gap's next work, the device waits for the host. The cause is the
-- activity of the launching thread, or of the main thread while the launching thread has no events: `load_data`, `sync`
-- (inside a call that returns when the GPU is done, until it returns), `cpu_tensor` (arithmetic on CPU tensors), `op`
-- (other ops and calls), `python`. Step and phase are those of the thread.
--
-- After the launch, step and phase are those of the work. Up to 50 us after the call returned (ten times the usual
-- launch delay), the cause is `launch`, or `sync` while a blocking call is still running. After that, or if the call
-- returned before the gap began, the cause is `queued`: the work waits on the GPU for an event, another stream or the
-- gap between two kernels. If this wait exceeds 50 us and no other device works in the last 50 us of the gap, the cause
-- is `unobserved`: the file does not explain the wait, and the device may have done unrecorded work. Gaps before work
-- with a launch outside the trace are `unknown`. The gap after the last work has parts of the main thread only.
--
-- :reads launched_gap, host_wait, gpu_busy, label, host_activity
-- :only_with launched_gap or host_wait
-- :column device DEVICE    -1 without a device
-- :column gap_ns BIGINT    start of the whole gap; a gap has one or more parts
-- :column start_ns BIGINT  start of the part
-- :column end_ns BIGINT    end of the part
-- :column cause IDLE_CAUSE why, as the glossary explains
-- :column track_id BIGINT  the thread the device waits for; NULL if the launch is unknown
-- :column step STEP        of the thread; after the launch, of the work; NULL outside every step or if unknown
-- :column phase PHASE      of the thread; after the launch, of the work; NULL outside every step or if unknown
-- :column next_id BIGINT   the GPU event at the end of the gap; NULL for the gap after the last event
with gap_after_launch as materialized (
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

-- Labels of the work at the end of a gap. Materialized: the database then joins few rows with all labels, and only
-- once.
ending_work as materialized (
    select
        label.event_id,
        label.step,
        label.phase
    from label
    where label.event_id in (select next_id from launched_gap)
),

-- Gaps with work of another device ending in the last 50 us. One device may wait for another, for example for a copy
-- between the two.
gap_near_other_work as (
    select
        gap_after_launch.device,
        gap_after_launch.start_ns
    from gap_after_launch
    inner join gpu as other on gap_after_launch.device != other.device
    asof inner join gpu_busy
        on other.device = gpu_busy.device and gap_after_launch.end_ns >= gpu_busy.start_ns
    where
        gap_after_launch.end_ns - gap_after_launch.due_ns > launch_effect_ns()
        and gpu_busy.end_ns >= gap_after_launch.end_ns - launch_effect_ns()
    group by gap_after_launch.device, gap_after_launch.start_ns
),

device_part as materialized (
    select
        gap_after_launch.device,
        gap_after_launch.start_ns as gap_ns,
        gap_after_launch.next_id,
        gap_after_launch.track_id,
        unnest([
            {
                'cause': 'sync',
                'start_ns': gap_after_launch.launched_ns,
                'end_ns': gap_after_launch.blocked_to_ns
            },
            {
                'cause': 'launch',
                'start_ns': gap_after_launch.blocked_to_ns,
                'end_ns': gap_after_launch.due_ns
            },
            {
                'cause': case
                    when
                        gap_after_launch.end_ns - gap_after_launch.due_ns > launch_effect_ns()
                        and gap_near_other_work.device is null
                        then 'unobserved'
                    else 'queued'
                end,
                'start_ns': gap_after_launch.due_ns,
                'end_ns': gap_after_launch.end_ns
            }
        ]) as part
    from gap_after_launch
    left join gap_near_other_work
        on
            gap_after_launch.device = gap_near_other_work.device
            and gap_after_launch.start_ns = gap_near_other_work.start_ns
)

select
    device,
    gap_ns,
    start_ns,
    end_ns,
    host_cause(kind) as cause,
    track_id,
    step,
    phase,
    next_id
from host_wait
where end_ns > start_ns
union all
select
    device_part.device,
    device_part.gap_ns,
    device_part.part.start_ns,
    device_part.part.end_ns,
    device_part.part.cause,
    device_part.track_id,
    ending_work.step,
    ending_work.phase,
    device_part.next_id
from device_part
left join ending_work on device_part.next_id = ending_work.event_id
where device_part.part.end_ns > device_part.part.start_ns
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
