-- Outermost ops of the forward pass: the input of the alignment with the model.
--
-- Ops of python functions (names without `::`) are replaced by their inner ops, unless the model lists them as ops
-- (`whole_op`). Compiled code is also replaced by its inner ops, unless the model is known to run it as a whole
-- (`compiled_part`). Left out are ops in spans that load data, clear gradients, optimize (except closure calls) or
-- start autograd. `call_id` is the enclosing engine call: ops recomputed by a checkpoint are there, among the ops of
-- backward itself. Names are joined last, because sorting them with the other columns would take a third longer.
--
-- :reads cpu_span, event, name_class, nesting, engine_segment, closure_call, compiled_part, whole_op
-- :column event_id BIGINT  the op
-- :column track_id BIGINT  thread
-- :column start_ns BIGINT  start
-- :column end_ns BIGINT    end
-- :column depth INTEGER    number of enclosing events on the thread
-- :column name VARCHAR     name of the op; for compiled code, without the number
-- :column call_id BIGINT   the innermost enclosing engine call; NULL outside of backward
with aside_span as (
    -- Spans without forward ops, with the latest end of all such spans started up to each.
    select
        nesting.track_id,
        nesting.start_ns,
        max(nesting.end_ns) over so_far as end_ns,
        max(case when name_class.strong_phase != 'optimizer' then nesting.end_ns end) over so_far as other_end_ns
    from cpu_span
    inner join name_class on cpu_span.class_id = name_class.class_id
    inner join nesting on cpu_span.event_id = nesting.event_id
    where
        name_class.strong_phase in ('load_data', 'zero_grad', 'optimizer', 'backward')
        and not name_class.is_node
    window so_far as (
        partition by nesting.track_id order by nesting.start_ns, nesting.end_ns desc rows unbounded preceding
    )
),

-- Ops other than autograd nodes.
op as (
    select
        cpu_span.event_id,
        cpu_span.track_id,
        nesting.start_ns,
        nesting.end_ns,
        nesting.depth,
        nesting.parent_id,
        contains(event.name, '::')
        or is_compiled_region(event.name) and exists (select 1 from compiled_part)
        or event.name in (select name from whole_op) as is_native
    from cpu_span
    inner join nesting on cpu_span.event_id = nesting.event_id
    inner join event on cpu_span.event_id = event.event_id
    left join name_class on cpu_span.class_id = name_class.class_id
    where cpu_span.is_op and not coalesce(name_class.is_node, false)
),

-- Ops that contain other ops.
holder as (
    select distinct around.op_id
    from op
    inner join nesting as around on op.parent_id = around.event_id
    where around.op_id is not null
),

-- Outermost ops, after replacing ops by their inner ops.
outermost_op as (
    select *
    from op
    where is_native or event_id not in (select op_id from holder)
    qualify is_outermost(start_ns, end_ns, track_id, depth)
),

-- Outermost ops outside of spans without forward.
forward_op as (
    select
        outermost_op.event_id,
        outermost_op.track_id,
        outermost_op.start_ns,
        outermost_op.end_ns,
        outermost_op.depth
    from outermost_op
    asof left join aside_span
        on outermost_op.track_id = aside_span.track_id and outermost_op.start_ns >= aside_span.start_ns
    asof left join closure_call
        on outermost_op.track_id = closure_call.track_id and outermost_op.start_ns >= closure_call.start_ns
    where
        coalesce(
            case
                when outermost_op.start_ns < closure_call.end_ns then aside_span.other_end_ns
                else aside_span.end_ns
            end
            <= outermost_op.start_ns,
            true
        )
)

select
    forward_op.event_id,
    forward_op.track_id,
    forward_op.start_ns,
    forward_op.end_ns,
    forward_op.depth,
    case
        when is_compiled_region(event.name) then 'Torch-Compiled Region' else event.name
    end as name,
    engine_segment.call_id
from forward_op
inner join event on forward_op.event_id = event.event_id
asof left join engine_segment
    on forward_op.track_id = engine_segment.track_id and forward_op.start_ns >= engine_segment.start_ns
order by forward_op.track_id, forward_op.start_ns, forward_op.depth
