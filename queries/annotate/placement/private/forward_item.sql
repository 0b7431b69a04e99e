-- Ops of the forward pass that stand in no other op: what the alignment with the model looks at.
--
-- Ops of python functions (their names have no `::`) are looked through, and so is compiled code, unless the model was
-- seen to run it as a whole (`compiled_part`). What the trace says is loading data, clearing gradients, optimizing (but
-- for calls of a closure) or starting autograd is left out. `call_id` is the engine's call around the op: there stands
-- what is computed again (activation checkpointing) among the ops of backward itself. Names are looked up last: sorting
-- them with the rest would cost a third more.
--
-- :reads cpu_span, event, name_class, nesting, engine_segment, closure_call, compiled_part
-- :column event_id BIGINT  the op
-- :column track_id BIGINT  its thread
-- :column start_ns BIGINT  start
-- :column end_ns BIGINT    end
-- :column depth INTEGER    number of events around it on its thread
-- :column name VARCHAR     name of the op; of compiled code, without its number
-- :column call_id BIGINT   event of the innermost call of the autograd engine around it; NULL outside of backward
with aside as (
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

op as (
    select
        cpu_span.event_id,
        cpu_span.track_id,
        nesting.start_ns,
        nesting.end_ns,
        nesting.depth,
        nesting.parent_id,
        contains(event.name, '::')
        or starts_with(event.name, 'Torch-Compiled Region') and exists (select 1 from compiled_part) as is_native
    from cpu_span
    inner join nesting on cpu_span.event_id = nesting.event_id
    inner join event on cpu_span.event_id = event.event_id
    left join name_class on cpu_span.class_id = name_class.class_id
    where cpu_span.is_op and not coalesce(name_class.is_node, false)
),

holder as (
    select distinct around.op_id
    from op
    inner join nesting as around on op.parent_id = around.event_id
    where around.op_id is not null
),

opaque as (
    select
        *,
        max(end_ns) over in_order as covers_to_ns
    from op
    where is_native or event_id not in (select op_id from holder)
    window in_order as (partition by track_id order by start_ns, depth rows unbounded preceding)
),

outermost as (
    select *
    from opaque
    qualify coalesce(lag(covers_to_ns) over (partition by track_id order by start_ns, depth) <= start_ns, true)
),

standing as (
    select
        outermost.event_id,
        outermost.track_id,
        outermost.start_ns,
        outermost.end_ns,
        outermost.depth
    from outermost
    asof left join aside on outermost.track_id = aside.track_id and outermost.start_ns >= aside.start_ns
    asof left join closure_call
        on outermost.track_id = closure_call.track_id and outermost.start_ns >= closure_call.start_ns
    where
        coalesce(
            case when outermost.start_ns < closure_call.end_ns then aside.other_end_ns else aside.end_ns end
            <= outermost.start_ns,
            true
        )
)

select
    standing.event_id,
    standing.track_id,
    standing.start_ns,
    standing.end_ns,
    standing.depth,
    case
        when starts_with(event.name, 'Torch-Compiled Region') then 'Torch-Compiled Region' else event.name
    end as name,
    engine_segment.call_id
from standing
inner join event on standing.event_id = event.event_id
asof left join engine_segment
    on standing.track_id = engine_segment.track_id and standing.start_ns >= engine_segment.start_ns
order by standing.track_id, standing.start_ns, standing.depth
