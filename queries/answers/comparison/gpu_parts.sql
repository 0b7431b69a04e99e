-- Composition of each step's time on the GPU: launched work, and idle time by cause.
--
-- All parts add up to the observed time of the device. Overlapping time counts once: to computation, then to
-- communication, then to memory. Within a class, the time goes to the work that started first. Communication is
-- therefore exposed communication. Idle time has the step, phase, module, region and op of the work that ends it. Work
-- without a step was launched before the trace or outside the steps, or has no launch in the trace.
--
-- :param rank BIGINT = NULL        only this rank
-- :param device BIGINT = NULL      only this device; -1 for events without a device
-- :param step BIGINT = NULL        only this step
-- :param phase PHASE = NULL        only this phase
-- :param module VARCHAR = NULL     only this module and its submodules, by path
-- :reads gpu_event, idle_part, region_segment
-- :column rank RANK
-- :column step STEP                NULL for work without a step
-- :column part VARCHAR             class of the work, or the cause of idle time (`idle: python`)
-- :column phase PHASE              of the launch; NULL for work without a step
-- :column module_path VARCHAR      module; NULL if unknown
-- :column region VARCHAR           innermost user annotation around the launch, else the outermost op; NULL without
--                                  both
-- :column op VARCHAR               innermost op around the launch; NULL without an op
-- :column kernel VARCHAR           short name of the kernel or copy; NULL for idle time
-- :column count BIGINT             kernels, copies and memsets; 0 for idle time
-- :column graph_count BIGINT       kernels, copies and memsets launched by a graph launch
-- :column time_ns BIGINT           time of this part on the device
-- :column dur_ns BIGINT            sum of durations, counting overlapping work twice; equal to `time_ns` for idle time

-- one row per selected GPU event
with work as (
    select
        rank,
        event_id,
        device,
        start_ns,
        end_ns,
        class as part,
        short_name as kernel
    from gpu_event
    where is_asked($rank, rank) and is_asked($device, device)
),

-- Latest end so far within a class, and within computation and communication together (class 0). A piece of work owns
-- the time after the latest end before it.
class_work as (
    select
        *,
        max(end_ns) over (
            partition by rank, device, class order by start_ns, event_id rows unbounded preceding
        ) as reached_ns
    from (
        select
            *,
            unnest(case part when 'communication' then [2, 0] when 'memory' then [3] else [1, 0] end) as class
        from work
    )
),

exclusive_work as (
    select
        *,
        greatest(start_ns, least(end_ns, coalesce(lag(reached_ns) over in_order, start_ns))) as own_start_ns
    from class_work
    window in_order as (partition by rank, device, class order by start_ns, event_id)
),

-- The time with running work of higher priority than communication (class 2) or memory (class 3), and its running sum.
priority_work as (
    select
        rank,
        device,
        case class when 1 then 2 else 3 end as class,
        own_start_ns as start_ns,
        end_ns,
        sum(end_ns - own_start_ns) over (
            partition by rank, device, class order by own_start_ns rows unbounded preceding
        ) - (end_ns - own_start_ns) as before_ns
    from exclusive_work
    where class < 2 and end_ns > own_start_ns
),

-- Part of a piece of communication or memory covered by work of higher priority: the sum at its end minus the sum at
-- its start.
covered_work as (
    select
        piece.rank,
        piece.event_id,
        sum(
            piece.sign
            * coalesce(
                priority_work.before_ns + least(piece.at_ns, priority_work.end_ns) - priority_work.start_ns, 0
            )
        )::bigint as covered_ns
    from (
        select
            rank,
            device,
            class,
            event_id,
            unnest([own_start_ns, end_ns]) as at_ns,
            unnest([-1, 1]) as sign
        from exclusive_work
        where class > 1
    ) as piece
    asof left join priority_work
        on
            piece.rank = priority_work.rank
            and piece.device = priority_work.device
            and piece.class = priority_work.class
            and piece.at_ns >= priority_work.start_ns
    group by piece.rank, piece.event_id
),

-- one row per gap, cause, step and phase: the idle time
idle_time as (
    select
        rank,
        next_id,
        step,
        phase,
        'idle: ' || use_cause(cause) as part,
        sum(end_ns - start_ns)::bigint as time_ns
    from idle_part
    where is_asked($rank, rank) and is_asked($device, device)
    group by rank, device, gap_ns, next_id, step, phase, part
),

-- one row per GPU event with its own time, or per idle time that ends with work
piece as (
    select
        exclusive_work.rank,
        exclusive_work.event_id,
        exclusive_work.part,
        exclusive_work.kernel,
        1 as count,
        exclusive_work.end_ns - exclusive_work.own_start_ns - coalesce(covered_work.covered_ns, 0) as time_ns,
        exclusive_work.end_ns - exclusive_work.start_ns as dur_ns
    from exclusive_work
    left join covered_work
        on exclusive_work.rank = covered_work.rank and exclusive_work.event_id = covered_work.event_id
    where exclusive_work.class > 0
    union all
    select
        rank,
        next_id,
        part,
        null,
        0,
        time_ns,
        time_ns as dur_ns
    from idle_time
    where time_ns != 0 and next_id is not null
),

-- One row per launching call, with its region.
launching_call as (
    select
        call.rank,
        call.call_id,
        coalesce(is_graph_launch(call.api), false) as by_graph,
        case when call.call_start_ns < region_segment.end_ns then region_segment.region end as region
    from (
        select distinct
            rank,
            coalesce(runtime_id, op_id) as call_id,
            api,
            call_track_id,
            call_start_ns
        from gpu_event
        where is_asked($rank, rank) and call_track_id is not null
    ) as call
    asof left join region_segment
        on
            call.rank = region_segment.rank
            and call.call_track_id = region_segment.track_id
            and call.call_start_ns >= region_segment.start_ns
),

-- one row per selected GPU event, with the step, phase, module, region and op of its launch
labelled_work as materialized (
    select
        gpu_event.rank,
        gpu_event.event_id,
        gpu_event.step,
        gpu_event.phase,
        gpu_event.module_path,
        launching_call.region,
        gpu_event.op,
        launching_call.by_graph
    from gpu_event
    left join launching_call
        on
            gpu_event.rank = launching_call.rank
            and coalesce(gpu_event.runtime_id, gpu_event.op_id) = launching_call.call_id
    where
        is_asked($rank, gpu_event.rank)
        and is_asked($step, gpu_event.step)
        and is_asked($phase, gpu_event.phase)
        and in_module(gpu_event.module_path, $module)
),

-- one row per piece of device time, with all labels
labelled_piece as (
    select
        labelled_work.rank,
        labelled_work.step,
        piece.part,
        labelled_work.phase,
        labelled_work.module_path,
        labelled_work.region,
        labelled_work.op,
        piece.kernel,
        piece.count,
        case when labelled_work.by_graph then piece.count else 0 end as graph_count,
        piece.time_ns,
        piece.dur_ns
    from piece
    inner join labelled_work on piece.rank = labelled_work.rank and piece.event_id = labelled_work.event_id
    union all
    select
        rank,
        step,
        part,
        phase,
        null,
        null,
        null,
        null,
        0,
        0,
        time_ns,
        time_ns as dur_ns
    from idle_time
    where
        next_id is null
        and time_ns != 0
        and is_asked($step, step)
        and is_asked($phase, phase)
        and $module is null
)

select
    rank,
    step,
    part,
    phase,
    module_path,
    region,
    op,
    kernel,
    sum(count)::bigint as count,
    sum(graph_count)::bigint as graph_count,
    sum(time_ns)::bigint as time_ns,
    sum(dur_ns)::bigint as dur_ns
from labelled_piece
group by rank, step, part, phase, module_path, region, op, kernel
order by rank, step, part, phase, module_path, region, op, kernel
