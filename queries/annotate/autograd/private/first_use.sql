-- Forward ops whose backward node computes a gradient that is then added to a parameter's: the first ones that use the
-- parameter.
--
-- The gradient of a parameter that is used several times is added up once, when all are known: after the node of the
-- first use, which runs last. `pass_ns` tells the backward passes apart: it is the start of the last op outside of the
-- engine before the gradient is added. Between two passes at least one such op starts, if only the op that makes the
-- first gradient.
--
-- :reads forward_item, node, nesting, cpu_span, name_class
-- :column event_id BIGINT  the op, of `forward_item`
-- :column pass_ns BIGINT   start of the last op outside of the engine before the gradient is added: equal within a
--                          backward pass
with adding_node as (
    -- Nodes that add a gradient to a parameter's.
    select
        node.event_id,
        node.track_id,
        node.start_ns
    from node
    inner join cpu_span on node.event_id = cpu_span.event_id
    inner join name_class on cpu_span.class_id = name_class.class_id
    where name_class.bucket = 'gradient_accumulation'
),

-- Ops that stand in no call of the engine.
outside_op as (
    select start_ns
    from forward_item
    where call_id is null
),

-- Such nodes with their pass.
adding_in_pass as (
    select
        adding_node.track_id,
        adding_node.start_ns,
        outside_op.start_ns as pass_ns
    from adding_node
    asof inner join outside_op on adding_node.start_ns >= outside_op.start_ns
),

-- All other nodes, with the place of the forward op of each.
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

-- Places of the forward ops whose nodes computed a gradient that is added.
origin as (
    select distinct
        computing_node.forward_track_id,
        computing_node.forward_ns,
        adding_in_pass.pass_ns
    from adding_in_pass
    asof inner join computing_node
        on adding_in_pass.track_id = computing_node.track_id and adding_in_pass.start_ns >= computing_node.start_ns
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
