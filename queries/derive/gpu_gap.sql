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
        not gap.is_last and not coalesce(placed.is_linked, false) as is_unlinked,
        coalesce(placed.track_id, main_track.track_id) as track_id,
        case
            when gap.is_last then gap.end_ns
            else greatest(gap.start_ns, least(gap.end_ns, coalesce(placed.launch_start_ns, gap.end_ns)))
        end as launched_ns,
        coalesce(placed.returned_ns <= gap.start_ns, false) as was_queued,
        placed.returned_ns + 50000 as due_ns
    from gap
    left join placed on gap.device = placed.device and gap.end_ns = placed.start_ns and not gap.is_last
    left join main_track on true
),

-- What the host has done up to each gap's start and up to the launch of what ends it.
moment as (
    select
        device,
        start_ns,
        track_id,
        start_ns as at_ns,
        false as is_launch
    from ended
    union all
    select
        device,
        start_ns,
        track_id,
        launched_ns,
        true
    from ended
),

done as (
    select
        moment.device,
        moment.start_ns,
        moment.is_launch,
        host_activity.kind,
        coalesce(host_activity.load_data_before_ns, 0)
        + case when host_activity.kind = 'load_data' then moment.at_ns - host_activity.at_ns else 0 end
            as load_data_ns,
        coalesce(host_activity.sync_before_ns, 0)
        + case when host_activity.kind = 'sync' then moment.at_ns - host_activity.at_ns else 0 end as sync_ns,
        coalesce(host_activity.op_before_ns, 0)
        + case when host_activity.kind = 'op' then moment.at_ns - host_activity.at_ns else 0 end as op_ns
    from moment
    asof left join host_activity
        on moment.track_id = host_activity.track_id and moment.at_ns >= host_activity.at_ns
),

split as (
    select
        ended.*,
        ended.launched_ns - ended.start_ns as host_ns,
        case
            when ended.was_queued then 0
            else least(ended.end_ns, coalesce(ended.due_ns, ended.end_ns)) - ended.launched_ns
        end as launching_ns,
        coalesce(at_start.kind = 'sync', false) as was_drained,
        coalesce(at_launch.kind = 'sync', false) as is_blocking,
        at_launch.load_data_ns - at_start.load_data_ns as load_data_ns,
        at_launch.sync_ns - at_start.sync_ns as sync_ns,
        at_launch.op_ns - at_start.op_ns as op_ns
    from ended
    inner join done as at_start
        on ended.device = at_start.device and ended.start_ns = at_start.start_ns and not at_start.is_launch
    inner join done as at_launch
        on ended.device = at_launch.device and ended.start_ns = at_launch.start_ns and at_launch.is_launch
),

-- A gap that no work ends belongs to the step in which it starts.
open_gap as (
    select
        split.device,
        split.start_ns,
        step.step
    from split
    asof inner join step on split.start_ns >= step.start_ns
    where split.next_id is null and split.start_ns < step.end_ns
)

select
    split.device,
    split.start_ns,
    split.end_ns,
    split.next_id,
    coalesce(label.step, open_gap.step) as step,
    case when open_gap.step is not null then 'other' else label.phase end as phase,
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
left join open_gap on split.device = open_gap.device and split.start_ns = open_gap.start_ns
