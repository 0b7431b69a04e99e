-- Outermost ops of the main thread between backward and the next forward pass, and the optimizer marks among them.
--
-- Ops that only describe tensors and ops inside a mark are left out; ops after a backward pass inside a mark stay. A
-- `chapter` begins at the end of the first node of a backward pass (or of the backward call, if earlier), and at each
-- start and end of PyTorch's optimizer mark. A `segment` is a run of ops that may belong to clipping.
--
-- :reads cpu_span, nesting, name_class, node, event, main_track
-- :only_with name_class where gradient is not null
-- :column event_id BIGINT   the op or mark
-- :column begin_ns BIGINT   start of the tensor conversion (`aten::to`) right before the op; the op's start without a
--                           conversion
-- :column start_ns BIGINT   start
-- :column end_ns BIGINT     end
-- :column kind VARCHAR      as `name_class.gradient`; step for a mark; total for a norm of norms; other for other ops
-- :column is_update BOOLEAN  the op changes a tensor in place by arithmetic
-- :column is_list BOOLEAN   the op works on a list of tensors (`_foreach_…`)
-- :column class_id BIGINT   the name, as in `name_class`; NULL for a mark, and if not in `name_class`
-- :column number BIGINT     order of time, from 1
-- :column chapter BIGINT    start of the chapter
-- :column segment HUGEINT   number of the segment
with mark as (
    -- PyTorch's optimizer marks: annotations or frames.
    select
        cpu_span.event_id,
        nesting.start_ns,
        nesting.end_ns,
        max(nesting.end_ns) over (order by nesting.start_ns rows unbounded preceding) as last_end_ns
    from cpu_span
    inner join name_class on cpu_span.class_id = name_class.class_id
    inner join nesting on cpu_span.event_id = nesting.event_id
    where name_class.gradient = 'step' and cpu_span.track_id in (select track_id from main_track)
),

-- Times at which the main thread reaches backward, an optimizer or forward. The last row before an op counts.
turn as (
    select
        node.end_ns as at_ns,
        'backward' as state
    from node
    union all
    select
        nesting.start_ns,
        'forward'
    from node
    inner join nesting on node.forward_id = nesting.event_id
    where nesting.track_id in (select track_id from main_track)
    union all
    select
        if(coalesce(name_class.strong_phase, name_class.weak_phase) = 'backward', nesting.end_ns, nesting.start_ns),
        if(coalesce(name_class.strong_phase, name_class.weak_phase) = 'backward', 'backward', 'forward')
    from cpu_span
    inner join name_class on cpu_span.class_id = name_class.class_id
    inner join nesting on cpu_span.event_id = nesting.event_id
    where
        not name_class.is_node
        and coalesce(name_class.strong_phase, name_class.weak_phase) in ('backward', 'forward', 'loss', 'load_data')
        and cpu_span.track_id in (select track_id from main_track)
    union all
    select
        unnest([start_ns, end_ns]),
        'step'
    from mark
),

-- Rows with a new state, or with a border of an optimizer mark.
chapter as (
    select *
    from turn
    qualify state = 'step' or coalesce(lag(state) over (order by at_ns, state) != state, true)
),

op as (
    select
        cpu_span.event_id,
        cpu_span.class_id,
        nesting.start_ns,
        nesting.end_ns
    from cpu_span
    inner join nesting on cpu_span.event_id = nesting.event_id
    left join nesting as around on nesting.parent_id = around.event_id
    left join event as around_op on around.op_id = around_op.event_id
    where
        cpu_span.is_op
        and cpu_span.track_id in (select track_id from main_track)
        and not coalesce(contains(around_op.name, '::') or around.op_id in (select event_id from node), false)
),

-- Ops after backward or after the optimizer. Ops inside an optimizer mark are left out, unless the optimizer called the
-- program again.
late_op as (
    select
        op.event_id,
        op.class_id,
        op.start_ns,
        op.end_ns,
        chapter.at_ns as chapter,
        chapter.state,
        lag(op.start_ns) over (order by op.start_ns) as previous_ns,
        lag(op.class_id) over (order by op.start_ns) as previous_class_id
    from op
    asof inner join chapter on op.start_ns >= chapter.at_ns
    where chapter.state != 'forward'
),

op_or_mark as (
    select
        late_op.event_id,
        late_op.class_id,
        if(previous_class.name = 'aten::to', late_op.previous_ns, late_op.start_ns) as begin_ns,
        late_op.start_ns,
        late_op.end_ns,
        late_op.chapter,
        coalesce(name_class.gradient, 'other') as kind,
        coalesce(name_class.sign = 'update', false) as is_update,
        coalesce(is_foreach_op(name_class.name), false) as is_list
    from late_op
    left join name_class on late_op.class_id = name_class.class_id
    left join name_class as previous_class on late_op.previous_class_id = previous_class.class_id
    asof left join mark on late_op.start_ns >= mark.start_ns
    where
        (late_op.state = 'backward' or coalesce(mark.last_end_ns <= late_op.start_ns, true))
        and not coalesce(name_class.is_node, false)
        and (name_class.gradient is not null or not coalesce(name_class.is_metadata, false))
    union all
    select
        event_id,
        null as class_id,
        start_ns as begin_ns,
        start_ns,
        end_ns,
        start_ns as chapter,
        'step' as kind,
        false as is_update,
        false as is_list
    from mark
),

numbered_op as (
    select
        * replace (
            -- The norm of gathered norms.
            if(kind = 'norm' and not is_list and lag(kind) over in_order = 'gather', 'total', kind) as kind
        ),
        row_number() over in_order as number,
        kind in ('step', 'unscale', 'rescale', 'update', 'other') as is_border
    from op_or_mark
    window in_order as (order by start_ns, end_ns desc)
)

select
    event_id,
    begin_ns,
    start_ns,
    end_ns,
    kind,
    is_update,
    is_list,
    class_id,
    number,
    chapter,
    sum((is_border or chapter != previous_chapter)::integer) over (order by number rows unbounded preceding)
    + is_border::integer as segment
from (
    select
        *,
        coalesce(lag(chapter) over (order by number), chapter) as previous_chapter
    from numbered_op
)
-- If no name in the trace has a gradient operation, there are no rows.
where exists (select 1 from name_class where gradient is not null)
order by number
