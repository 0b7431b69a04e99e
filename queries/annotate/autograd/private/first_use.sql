-- Forward ops that are the first to use a parameter. The op's backward node computes the gradient added to the
-- parameter's.
--
-- The gradient of a parameter used several times is added once, after all parts are known. The node of the first use
-- runs last, right before the addition. `pass_ns` identifies the backward pass: the start of the last op outside the
-- engine before the gradient is added. At least one op outside the engine starts between two passes, if only to create
-- the first gradient.
--
-- :reads forward_item, node, nesting, cpu_span, name_class
-- :column event_id BIGINT  the op, of `forward_item`
-- :column pass_ns BIGINT   start of the last op outside the engine before the gradient is added; equal within a
--                          backward pass
with adding_node as (
    -- Nodes that add a gradient to a parameter's gradient.
    select
        node.event_id,
        node.track_id,
        node.start_ns
    from node
    inner join cpu_span on node.event_id = cpu_span.event_id
    inner join name_class on cpu_span.class_id = name_class.class_id
    where name_class.bucket = 'gradient_accumulation'
),

-- Ops outside of engine calls.
outside_op as (
    select start_ns
    from forward_item
    where call_id is null
),

-- Nodes that add a gradient, with the backward pass.
gradient_addition as (
    select
        adding_node.track_id,
        adding_node.start_ns,
        outside_op.start_ns as pass_ns
    from adding_node
    asof inner join outside_op on adding_node.start_ns >= outside_op.start_ns
),

-- All other nodes, with the thread and start of the forward op.
computing_node as (
    select
        node.track_id,
        node.start_ns,
        nesting.track_id as forward_track_id,
        nesting.start_ns as forward_ns
    from node
    left join nesting on node.forward_id = nesting.event_id
    where node.event_id not in (select event_id from adding_node)
),

-- Threads and starts of forward ops whose nodes computed an added gradient.
origin as (
    select distinct
        computing_node.forward_track_id,
        computing_node.forward_ns,
        gradient_addition.pass_ns
    from gradient_addition
    asof inner join computing_node
        on
            gradient_addition.track_id = computing_node.track_id
            and gradient_addition.start_ns >= computing_node.start_ns
    where computing_node.forward_ns is not null
)

select distinct
    forward_item.event_id,
    origin.pass_ns
from origin
asof inner join forward_item
    on origin.forward_track_id = forward_item.track_id and origin.forward_ns >= forward_item.start_ns
where origin.forward_ns < forward_item.end_ns
order by forward_item.event_id, origin.pass_ns
