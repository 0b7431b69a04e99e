-- What each step's time on the GPU is made of: the work it launched, and why the device idled before that.
--
-- All parts add up to the observed time of the device. Where work overlaps, the time counts once: to computation, then
-- to communication, then to memory; of one class, to what started first. So communication has the time in which nothing
-- is computed. Idle time counts to the step, phase, module, region and op of the work that ends it. Work
-- of no step was launched before the trace began, outside the steps, or has no launch in the trace.
--
-- :param rank BIGINT = NULL        only this rank
-- :param device BIGINT = NULL      only this device; -1 when the events name none
-- :param step BIGINT = NULL        only this step
-- :param phase PHASE = NULL
--                                  only this phase
-- :param module VARCHAR = NULL     only this module or one in it, by path
-- :reads gpu_event, launch, event, label, idle_part, region_segment, model_op
-- :column rank BIGINT              process rank
-- :column step BIGINT              the step; NULL for work of no step
-- :column part VARCHAR             the class of the work, or why the device idled: `idle: python`
-- :column phase VARCHAR            phase that launched it; NULL for work of no step
-- :column module_path VARCHAR      module; NULL where none is known
-- :column region VARCHAR           innermost annotation of the user around the launch, else the outermost op; NULL
--                                  without either
-- :column op VARCHAR               innermost op around the launch; NULL without one
-- :column kernel VARCHAR           short name of the kernel or copy; NULL for idle time
-- :column count BIGINT             kernels, copies and memsets; 0 for idle time
-- :column graph_count BIGINT       of them, launched by a graph launch
-- :column time_ns BIGINT           its part of the device's time
-- :column dur_ns BIGINT            sum of durations, which count overlapping work twice; the same for idle time
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

-- What came before in the work of one class, and in all computation and communication (class 0): its own time begins
-- where that has ended.
reached as (
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

own as (
    select
        *,
        greatest(start_ns, least(end_ns, coalesce(lag(reached_ns) over in_order, start_ns))) as own_start_ns
    from reached
    window in_order as (partition by rank, device, class order by start_ns, event_id)
),

-- The time in which something above communication runs, and above memory, with its sum so far.
above as (
    select
        rank,
        device,
        case class when 1 then 2 else 3 end as class,
        own_start_ns as start_ns,
        end_ns,
        sum(end_ns - own_start_ns) over (
            partition by rank, device, class order by own_start_ns rows unbounded preceding
        ) - (end_ns - own_start_ns) as before_ns
    from own
    where class < 2 and end_ns > own_start_ns
),

-- How much of that a piece of communication or memory covers: until its end, less until its start.
covered as (
    select
        piece.rank,
        piece.event_id,
        sum(
            piece.sign * coalesce(above.before_ns + least(piece.at_ns, above.end_ns) - above.start_ns, 0)
        )::bigint as covered_ns
    from (
        select
            rank,
            device,
            class,
            event_id,
            unnest([own_start_ns, end_ns]) as at_ns,
            unnest([-1, 1]) as sign
        from own
        where class > 1
    ) as piece
    asof left join above
        on
            piece.rank = above.rank
            and piece.device = above.device
            and piece.class = above.class
            and piece.at_ns >= above.start_ns
    group by piece.rank, piece.event_id
),

idle as (
    select
        rank,
        next_id,
        step,
        phase,
        'idle: ' || case when cause in ('op', 'launch') then 'launching' else cause end as part,
        sum(end_ns - start_ns)::bigint as time_ns
    from idle_part
    where is_asked($rank, rank) and is_asked($device, device)
    group by rank, device, gap_ns, next_id, step, phase, part
),

piece as (
    select
        own.rank,
        own.event_id,
        own.part,
        own.kernel,
        1 as count,
        own.end_ns - own.own_start_ns - coalesce(covered.covered_ns, 0) as time_ns,
        own.end_ns - own.start_ns as dur_ns
    from own
    left join covered on own.rank = covered.rank and own.event_id = covered.event_id
    where own.class > 0
    union all
    select
        rank,
        next_id,
        part,
        null,
        0,
        time_ns,
        time_ns as dur_ns
    from idle
    where time_ns != 0 and next_id is not null
),

-- Calls that launch work, with the region that each is in.
placed as (
    select
        call.rank,
        call.call_id,
        coalesce(contains(event.name, 'GraphLaunch'), false) as by_graph,
        case when event.start_ns < region_segment.end_ns then region_segment.region end as region
    from (
        select distinct
            rank,
            coalesce(runtime_id, op_id) as call_id
        from launch
        where is_asked($rank, rank)
    ) as call
    inner join event on call.rank = event.rank and call.call_id = event.event_id
    asof left join region_segment
        on
            event.rank = region_segment.rank
            and event.track_id = region_segment.track_id
            and event.start_ns >= region_segment.start_ns
),

launched as materialized (
    select
        launch.rank,
        launch.event_id,
        label.step,
        label.phase,
        model_op.path as module_path,
        placed.region,
        op.name as op,
        placed.by_graph
    from launch
    inner join label on launch.rank = label.rank and launch.event_id = label.event_id
    left join event as op on launch.rank = op.rank and launch.op_id = op.event_id
    left join placed
        on launch.rank = placed.rank and coalesce(launch.runtime_id, launch.op_id) = placed.call_id
    left join model_op on label.rank = model_op.rank and label.module_id = model_op.module_id
    where
        is_asked($rank, launch.rank)
        and is_asked($step, label.step)
        and is_asked($phase, label.phase)
        and in_module(model_op.path, $module)
),

labelled as (
    select
        launched.rank,
        launched.step,
        piece.part,
        launched.phase,
        launched.module_path,
        launched.region,
        launched.op,
        piece.kernel,
        piece.count,
        case when launched.by_graph then piece.count else 0 end as graph_count,
        piece.time_ns,
        piece.dur_ns
    from piece
    inner join launched on piece.rank = launched.rank and piece.event_id = launched.event_id
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
    from idle
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
from labelled
group by rank, step, part, phase, module_path, region, op, kernel
order by rank, step, part, phase, module_path, region, op, kernel
