-- The module of each autograd node: the innermost module call around the forward op that created it.
--
-- A node that adds a parameter's gradient has no forward op. The engine runs it right after the node that computed the
-- gradient (torch/csrc/autograd/engine.cpp: its sequence number is the highest of all), and it belongs where that does.
--
-- :reads node, nesting, frame_segment, model_op, cpu_span, name_class
-- :column event_id BIGINT   the node, or the engine's call of it
-- :column module_id BIGINT  its module, of `model_op`
-- :column evidence VARCHAR  what tells the forward op: sequence_number, flow or alignment; autograd_order where a
--                           gradient is added right after the node that has it
with adding as (
    select node.event_id
    from node
    inner join cpu_span on node.event_id = cpu_span.event_id
    inner join name_class on cpu_span.class_id = name_class.class_id
    where name_class.bucket = 'gradient_accumulation'
),

computing as (
    select *
    from node
    where event_id not in (select event_id from adding)
),

origin as (
    select
        event_id,
        evidence,
        forward_id
    from computing
    where forward_id is not null
    union all
    select
        node.event_id,
        case when computing.forward_id is not null then 'autograd_order' end,
        computing.forward_id
    from node
    asof inner join computing on node.track_id = computing.track_id and node.start_ns >= computing.start_ns
    where node.event_id in (select event_id from adding) and computing.forward_id is not null
),

place as (
    select
        origin.event_id,
        origin.evidence,
        forward_op.track_id,
        forward_op.start_ns
    from origin
    inner join nesting as forward_op on origin.forward_id = forward_op.event_id
),

placed as (
    select
        place.event_id,
        place.evidence,
        case when place.start_ns < frame_segment.end_ns then frame_segment.module_key end as module_key
    from place
    asof left join frame_segment
        on place.track_id = frame_segment.track_id and place.start_ns >= frame_segment.start_ns
)

select
    placed.event_id,
    model_op.module_id,
    placed.evidence
from placed
inner join model_op on placed.module_key = model_op.module_key
order by placed.event_id
