-- The module of each autograd node: the innermost module call around the forward op that created the node.
--
-- A node adding a parameter's gradient has no forward op. The engine runs this node right after the node that computed
-- the gradient, because its sequence number is the highest of all (torch/csrc/autograd/engine.cpp). Both nodes belong
-- to the same module.
--
-- :reads node, nesting, frame_segment, model_op, cpu_span, name_class
-- :only_with model_op
-- :only_with node
-- :column event_id BIGINT   the node, or the engine call of the node
-- :column module_id BIGINT  module, of `model_op`
-- :column evidence VARCHAR  source of the forward op: sequence_number, flow or alignment; autograd_order for a gradient
--                           added right after its node
with adding_node as (
    -- Nodes that add a gradient to a parameter's gradient.
    select node.event_id
    from node
    inner join cpu_span on node.event_id = cpu_span.event_id
    inner join name_class on cpu_span.class_id = name_class.class_id
    where name_class.bucket = 'gradient_accumulation'
),

computing_node as (
    select *
    from node
    where event_id not in (select event_id from adding_node)
),

-- Nodes with a forward op for finding the module.
origin as (
    select
        event_id,
        evidence,
        forward_id
    from computing_node
    where forward_id is not null
    union all
    select
        node.event_id,
        case when computing_node.forward_id is not null then 'autograd_order' end,
        computing_node.forward_id
    from node
    asof inner join computing_node
        on node.track_id = computing_node.track_id and node.start_ns >= computing_node.start_ns
    where node.event_id in (select event_id from adding_node) and computing_node.forward_id is not null
),

-- The same nodes, with the thread and start of the forward op.
forward_place as (
    select
        origin.event_id,
        origin.evidence,
        forward_op.track_id,
        forward_op.start_ns
    from origin
    inner join nesting as forward_op on origin.forward_id = forward_op.event_id
),

-- The same nodes, with the module call around the forward op; NULL outside of module calls.
node_key as (
    select
        forward_place.event_id,
        forward_place.evidence,
        case when forward_place.start_ns < frame_segment.end_ns then frame_segment.module_key end as module_key
    from forward_place
    asof left join frame_segment
        on forward_place.track_id = frame_segment.track_id and forward_place.start_ns >= frame_segment.start_ns
)

select
    node_key.event_id,
    model_op.module_id,
    node_key.evidence
from node_key
inner join model_op on node_key.module_key = model_op.module_key
order by node_key.event_id
