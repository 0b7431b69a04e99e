-- Times when a device does nothing, and why: what the launching thread did until it launched the work that ends the
-- gap.
--
-- The observed time of a device reaches from the first step or its first work to the last step's end or its last work.
-- A gap belongs to the step and phase of the work that ends it. It has up to two parts. Until that work is launched the
-- GPU waits for the host; that part is split by what the host does. From the launch on it waits for the launch to take
-- effect (`launch_ns`, up to 50 us after the call returned, ten times what a launch usually takes). After that, or if
-- the call had returned before the gap began, it waits for something on the GPU: an event, another stream, the gap
-- between kernels (`queued_ns`). If the host was inside a synchronise when the gap began, the queue ran dry because of
-- it: all of the host's part but data loading counts as `sync_ns`, and so does the way of work that a blocking call
-- launched. The parts add up to the gap.
--
-- :reads gpu_busy, timed, gpu_op, launch, nesting, label, step, host_activity, main_track
with observed as (
    select
        gpu_busy.device,
        least(min(gpu_busy.start_ns), any_value(edges.start_ns)) as start_ns,
        greatest(max(gpu_busy.end_ns), any_value(edges.end_ns)) as end_ns
    from gpu_busy
    cross join (
        select
            min(start_ns) as start_ns,
            max(end_ns) as end_ns
        from step
    ) as edges
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

ended as (
    select
        gap.device,
        gap.start_ns,
        gap.end_ns,
        case when not gap.is_last then starting.event_id end as next_id,
        launch.link is null and not gap.is_last as is_unlinked,
        coalesce(nesting.track_id, main_track.track_id) as track_id,
        case
            when gap.is_last then gap.end_ns
            else greatest(gap.start_ns, least(gap.end_ns, coalesce(launch.launch_start_ns, gap.end_ns)))
        end as launched_ns,
        coalesce(launch.launch_start_ns + launch.launch_dur_ns <= gap.start_ns, false) as was_queued,
        launch.launch_start_ns + launch.launch_dur_ns + 50000 as due_ns
    from gap
    left join starting on gap.device = starting.device and gap.end_ns = starting.start_ns
    left join launch on starting.event_id = launch.event_id and not gap.is_last
    left join nesting on coalesce(launch.runtime_id, launch.op_id) = nesting.event_id
    left join main_track on true
),

at_start as (
    select
        ended.*,
        host_activity.kind as kind_at_start,
        coalesce(host_activity.load_data_before_ns, 0)
        + case when host_activity.kind = 'load_data' then ended.start_ns - host_activity.at_ns else 0 end
            as load_data_0,
        coalesce(host_activity.sync_before_ns, 0)
        + case when host_activity.kind = 'sync' then ended.start_ns - host_activity.at_ns else 0 end as sync_0,
        coalesce(host_activity.op_before_ns, 0)
        + case when host_activity.kind = 'op' then ended.start_ns - host_activity.at_ns else 0 end as op_0
    from ended
    asof left join host_activity
        on ended.track_id = host_activity.track_id and ended.start_ns >= host_activity.at_ns
),

summed as (
    select
        at_start.*,
        coalesce(host_activity.kind = 'sync', false) as is_blocking,
        coalesce(host_activity.load_data_before_ns, 0)
        + case when host_activity.kind = 'load_data' then at_start.launched_ns - host_activity.at_ns else 0 end
        - at_start.load_data_0 as load_data_ns,
        coalesce(host_activity.sync_before_ns, 0)
        + case when host_activity.kind = 'sync' then at_start.launched_ns - host_activity.at_ns else 0 end
        - at_start.sync_0 as sync_ns,
        coalesce(host_activity.op_before_ns, 0)
        + case when host_activity.kind = 'op' then at_start.launched_ns - host_activity.at_ns else 0 end
        - at_start.op_0 as op_ns
    from at_start
    asof left join host_activity
        on at_start.track_id = host_activity.track_id and at_start.launched_ns >= host_activity.at_ns
),

split as (
    select
        *,
        launched_ns - start_ns as host_ns,
        case
            when was_queued then 0
            else least(end_ns, coalesce(due_ns, end_ns)) - launched_ns
        end as launching_ns,
        coalesce(kind_at_start = 'sync', false) as was_drained
    from summed
)

select
    split.device,
    split.start_ns,
    split.end_ns,
    split.next_id,
    case when split.next_id is not null then label.step when split.start_ns < step.end_ns then step.step end as step,
    case when split.next_id is not null then label.phase when split.start_ns < step.end_ns then 'other' end as phase,
    case when split.is_unlinked then 0 else split.load_data_ns end as load_data_ns,
    case
        when split.is_unlinked then 0
        when split.was_drained then split.host_ns - split.load_data_ns
        else split.sync_ns
    end + case when split.is_blocking and not split.is_unlinked then split.launching_ns else 0 end as sync_ns,
    case when split.is_unlinked or split.was_drained then 0 else split.op_ns end as op_ns,
    case
        when split.is_unlinked or split.was_drained then 0
        else split.host_ns - split.load_data_ns - split.sync_ns - split.op_ns
    end as python_ns,
    case when split.is_unlinked or split.is_blocking then 0 else split.launching_ns end as launch_ns,
    case
        when split.is_unlinked then 0
        else split.end_ns - split.launched_ns - split.launching_ns
    end as queued_ns,
    case when split.is_unlinked then split.end_ns - split.start_ns else 0 end as unknown_ns
from split
left join label on split.next_id = label.event_id
asof left join step on split.start_ns >= step.start_ns
