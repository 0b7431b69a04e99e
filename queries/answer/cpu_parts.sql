-- What each step's time on the main CPU thread is made of: ops by phase, module and region, and the time between them.
--
-- The parts of a step add up to its duration. An op has the time in which it is the innermost one, with the runtime
-- calls inside it. Python is what no op covers, waiting for other threads included: while autograd runs on a thread of
-- its own, the main thread is outside ops.
--
-- :param rank BIGINT = NULL        only this rank
-- :param step BIGINT = NULL        only this step
-- :param phase VARCHAR in (load_data, forward, loss, zero_grad, backward, optimizer, other) = NULL
--                                  only this phase
-- :param module VARCHAR = NULL     only this module or one in it, by path
-- :reads label_segment, region_segment, nesting, event, phase_span, model_op
-- :column rank BIGINT              process rank
-- :column step BIGINT              the step
-- :column part VARCHAR             op or outside ops
-- :column phase VARCHAR            phase
-- :column module_path VARCHAR      module; NULL where none is known
-- :column region VARCHAR           innermost annotation of the user, else the outermost op; NULL without either
-- :column op VARCHAR               innermost op; NULL outside ops
-- :column count BIGINT             calls that start here
-- :column time_ns BIGINT           its part of the step
with main as (
    select distinct
        rank,
        track_id
    from phase_span
    where is_main and ($rank is null or rank = $rank)
),

op_edge as (
    select
        nesting.rank,
        nesting.track_id,
        nesting.event_id,
        nesting.start_ns,
        nesting.end_ns,
        nesting.depth,
        parent.op_id as outer_id
    from nesting
    inner join main on nesting.rank = main.rank and nesting.track_id = main.track_id
    left join nesting as parent on nesting.rank = parent.rank and nesting.parent_id = parent.event_id
    where nesting.op_id = nesting.event_id
),

-- The pieces of a layer are numbered in order of time: the last one that started is that with the highest number.
label_piece as (
    select
        label_segment.*,
        row_number() over (order by label_segment.rank, label_segment.track_id, label_segment.start_ns) as label_number
    from label_segment
    inner join main on label_segment.rank = main.rank and label_segment.track_id = main.track_id
),

region_piece as (
    select
        region_segment.*,
        row_number() over (order by region_segment.rank, region_segment.track_id, region_segment.start_ns)
            as region_number
    from region_segment
    inner join main on region_segment.rank = main.rank and region_segment.track_id = main.track_id
),

border as (
    select
        rank,
        track_id,
        start_ns as at_ns,
        1 as opens,
        depth as in_order,
        null::bigint as label_number,
        null::bigint as region_number,
        {'op_id': event_id} as op,
        null::bigint as instant_id,
        1 as count
    from op_edge
    where end_ns > start_ns
    union all
    select
        rank,
        track_id,
        end_ns,
        0,
        -depth,
        null,
        null,
        {'op_id': outer_id},
        null,
        0
    from op_edge
    where end_ns > start_ns
    union all
    -- An op without duration counts, and takes no time from the one around it or beside it.
    select
        rank,
        track_id,
        start_ns,
        0,
        0,
        null,
        null,
        null,
        event_id,
        1
    from op_edge
    where end_ns = start_ns
    union all
    select
        rank,
        track_id,
        start_ns,
        -1,
        0,
        label_number,
        null,
        null,
        null,
        0
    from label_piece
    union all
    select
        rank,
        track_id,
        unnest([start_ns, end_ns]),
        -1,
        0,
        null,
        region_number,
        null,
        null,
        0
    from region_piece
),

numbered as (
    select
        rank,
        at_ns,
        instant_id,
        count,
        lead(at_ns) over in_order as end_ns,
        max(label_number) over (in_order rows between unbounded preceding and current row) as label_number,
        max(region_number) over (in_order rows between unbounded preceding and current row) as region_number,
        last_value(op ignore nulls) over (in_order rows between unbounded preceding and current row) as op
    from border
    window in_order as (partition by rank, track_id order by at_ns, opens, in_order)
),

held as (
    select
        numbered.rank,
        numbered.at_ns,
        numbered.instant_id,
        numbered.count,
        numbered.end_ns,
        label_piece.step,
        coalesce(label_piece.phase, 'other') as phase,
        label_piece.module_id,
        case when numbered.at_ns < region_piece.end_ns then region_piece.region end as region,
        numbered.op.op_id
    from numbered
    inner join label_piece on numbered.label_number = label_piece.label_number
    left join region_piece on numbered.region_number = region_piece.region_number
    where label_piece.step is not null and ($step is null or label_piece.step = $step)
),

piece as (
    select
        rank,
        step,
        phase,
        module_id,
        region,
        op_id,
        sum(case when instant_id is null then count else 0 end) as count,
        sum(end_ns - at_ns) as time_ns
    from held
    group by all
    union all
    select
        rank,
        step,
        phase,
        module_id,
        region,
        instant_id,
        count,
        0
    from held
    where instant_id is not null
)

select
    piece.rank,
    piece.step,
    case when piece.op_id is null then 'outside ops' else 'op' end as part,
    piece.phase,
    model_op.path as module_path,
    piece.region,
    event.name as op,
    sum(piece.count)::bigint as count,
    sum(piece.time_ns)::bigint as time_ns
from piece
left join event on piece.rank = event.rank and piece.op_id = event.event_id
left join model_op on piece.rank = model_op.rank and piece.module_id = model_op.module_id
where
    ($phase is null or piece.phase = $phase)
    and ($module is null or model_op.path = $module or starts_with(model_op.path, $module || '.'))
group by
    piece.rank, piece.step, case when piece.op_id is null then 'outside ops' else 'op' end, piece.phase, model_op.path,
    piece.region, event.name
having sum(piece.time_ns) != 0 or sum(piece.count) != 0
order by piece.rank, piece.step, part, piece.phase, model_op.path, piece.region, event.name
