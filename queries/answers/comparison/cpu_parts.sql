-- Composition of each step's time on the main CPU thread: ops by phase, module and region, and time outside ops.
--
-- The parts of a step add up to its duration. An op has the time in which the op is innermost, including inner runtime
-- calls. Time outside ops is python, including waits for other threads: while autograd runs on a thread of its own, the
-- main thread is outside ops.
--
-- :param rank BIGINT = NULL        only this rank
-- :param step BIGINT = NULL        only this step
-- :param phase PHASE = NULL        only this phase
-- :param module VARCHAR = NULL     only this module and its submodules, by path
-- :reads label_segment, region_segment, nesting, event, phase_span, model_op
-- :column rank RANK
-- :column step STEP
-- :column part VARCHAR             `op` or `outside ops`
-- :column phase PHASE
-- :column module_path VARCHAR      module; NULL if unknown
-- :column region VARCHAR           innermost user annotation, else the outermost op; NULL without both
-- :column op VARCHAR               innermost op; NULL outside ops
-- :column count BIGINT             calls starting in this part
-- :column time_ns BIGINT           time of this part in the step
with main_thread as (
    select distinct
        rank,
        track_id
    from phase_span
    where is_main and is_asked($rank, rank)
),

-- Pieces are numbered in order of time, so the highest number seen so far is the current piece.
label_piece as (
    select
        label_segment.*,
        row_number() over (order by label_segment.rank, label_segment.track_id, label_segment.start_ns) as label_number
    from label_segment
    inner join main_thread on label_segment.rank = main_thread.rank and label_segment.track_id = main_thread.track_id
),

region_piece as (
    select
        region_segment.*,
        row_number() over (order by region_segment.rank, region_segment.track_id, region_segment.start_ns)
            as region_number
    from region_segment
    inner join main_thread on region_segment.rank = main_thread.rank and region_segment.track_id = main_thread.track_id
),

-- The op after a border is stored as its id plus one; 0 means no op.
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
    inner join main_thread on nesting.rank = main_thread.rank and nesting.track_id = main_thread.track_id
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
    inner join main_thread on nesting.rank = main_thread.rank and nesting.track_id = main_thread.track_id
    left join nesting as parent on nesting.rank = parent.rank and nesting.parent_id = parent.event_id
    where nesting.op_id = nesting.event_id and nesting.end_ns > nesting.start_ns
    union all
    -- An op without duration is counted but takes no time. A second border right after it restores the outer op.
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
    inner join main_thread on nesting.rank = main_thread.rank and nesting.track_id = main_thread.track_id
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

ordered_border as (
    select * from border
    order by rank, track_id, at_ns, opens, in_order
),

-- Windows without `order by` keep the order of the inner query and need no memory.
placed_border as (
    select
        *,
        row_number() over () as place
    from ordered_border
),

-- one row per border, with its duration and the current label, region and op
stretch as (
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
        -- The op of the last border that changes the op. Later places are greater.
        max(case when op_number is not null then at_place(place, op_number) end) over so_far as op_in_place
    from placed_border
    window so_far as (rows unbounded preceding) -- noqa: PRS
),

-- one row per piece of a step, with its phase, module, region and op
piece as (
    select
        stretch.rank,
        label_piece.step,
        coalesce(label_piece.phase, 'other') as phase,
        label_piece.module_id,
        case when stretch.at_ns < region_piece.end_ns then region_piece.region end as region,
        coalesce(stretch.instant_id, nullif(number_at(stretch.op_in_place), 0) - 1) as op_id,
        stretch.count,
        stretch.time_ns
    from stretch
    inner join label_piece
        on
            stretch.label_number = label_piece.label_number
            and stretch.rank = label_piece.rank
            and stretch.track_id = label_piece.track_id
    left join region_piece
        on
            stretch.region_number = region_piece.region_number
            and stretch.rank = region_piece.rank
            and stretch.track_id = region_piece.track_id
    where
        label_piece.step is not null
        and is_asked($step, label_piece.step)
        and (stretch.time_ns > 0 or stretch.count > 0)
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
