-- What each step's time on the main CPU thread is made of: ops by phase, module and region, and the time between them.
--
-- The parts of a step add up to its duration. An op has the time in which it is the innermost one, with the runtime
-- calls inside it. Python is what no op covers, waiting for other threads included: while autograd runs on a thread of
-- its own, the main thread is outside ops.
--
-- :param rank BIGINT = NULL        only this rank
-- :param step BIGINT = NULL        only this step
-- :param phase PHASE = NULL
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
    where is_main and is_asked($rank, rank)
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

-- The op from a border on has its number, which is one above its id, and 0 is none.
border as (
    select
        nesting.rank,
        nesting.track_id,
        nesting.start_ns as at_ns,
        1::tinyint as opens,
        nesting.depth as in_order,
        null::bigint as label_number,
        null::bigint as region_number,
        nesting.event_id + 1 as op_number,
        null::bigint as instant_id,
        1::tinyint as count
    from nesting
    inner join main on nesting.rank = main.rank and nesting.track_id = main.track_id
    where nesting.op_id = nesting.event_id and nesting.end_ns > nesting.start_ns
    union all
    select
        nesting.rank,
        nesting.track_id,
        nesting.end_ns,
        0::tinyint,
        -nesting.depth,
        null,
        null,
        coalesce(parent.op_id + 1, 0),
        null,
        0::tinyint
    from nesting
    inner join main on nesting.rank = main.rank and nesting.track_id = main.track_id
    left join nesting as parent on nesting.rank = parent.rank and nesting.parent_id = parent.event_id
    where nesting.op_id = nesting.event_id and nesting.end_ns > nesting.start_ns
    union all
    -- An op without duration counts, and takes no time: the one around it goes on in a border right behind.
    select
        nesting.rank,
        nesting.track_id,
        nesting.start_ns,
        0::tinyint,
        unnest([0, 1]) as in_order,
        null,
        null,
        null,
        case when in_order = 0 then nesting.event_id end,
        case when in_order = 0 then 1 else 0 end::tinyint
    from nesting
    inner join main on nesting.rank = main.rank and nesting.track_id = main.track_id
    where nesting.op_id = nesting.event_id and nesting.end_ns = nesting.start_ns
    union all
    select
        rank,
        track_id,
        start_ns,
        -1::tinyint,
        0,
        label_number,
        null,
        null,
        null,
        0::tinyint
    from label_piece
    union all
    select
        rank,
        track_id,
        unnest([start_ns, end_ns]),
        -1::tinyint,
        0,
        null,
        region_number,
        null,
        null,
        0::tinyint
    from region_piece
),

in_order as (
    select * from border
    order by rank, track_id, at_ns, opens, in_order
),

-- Windows without `order by` keep the order of the inner query, and need no memory.
placed as (
    select
        *,
        row_number() over () as place
    from in_order
),

numbered as (
    select
        rank,
        track_id,
        at_ns,
        instant_id,
        count,
        case
            when lead(rank) over () = rank and lead(track_id) over () = track_id then lead(at_ns) over () - at_ns
        end as time_ns,
        max(label_number) over so_far as label_number,
        max(region_number) over so_far as region_number,
        -- The number of the last border that has one: what comes later is greater.
        max(case when op_number is not null then at_place(place, op_number) end) over so_far as op_in_place
    from placed
    window so_far as (rows unbounded preceding) -- noqa: PRS
),

piece as (
    select
        numbered.rank,
        label_piece.step,
        coalesce(label_piece.phase, 'other') as phase,
        label_piece.module_id,
        case when numbered.at_ns < region_piece.end_ns then region_piece.region end as region,
        coalesce(numbered.instant_id, nullif(number_at(numbered.op_in_place), 0) - 1) as op_id,
        numbered.count,
        numbered.time_ns
    from numbered
    inner join label_piece
        on
            numbered.label_number = label_piece.label_number
            and numbered.rank = label_piece.rank
            and numbered.track_id = label_piece.track_id
    left join region_piece
        on
            numbered.region_number = region_piece.region_number
            and numbered.rank = region_piece.rank
            and numbered.track_id = region_piece.track_id
    where
        label_piece.step is not null
        and is_asked($step, label_piece.step)
        and (numbered.time_ns > 0 or numbered.count > 0)
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
    is_asked($phase, piece.phase)
    and in_module(model_op.path, $module)
group by
    piece.rank, piece.step, case when piece.op_id is null then 'outside ops' else 'op' end, piece.phase, model_op.path,
    piece.region, event.name
having sum(piece.time_ns) != 0 or sum(piece.count) != 0
order by piece.rank, piece.step, part, piece.phase, model_op.path, piece.region, event.name
