-- Ops of the forward pass that hand a gradient on to a parameter in backward: the first ones that use it.
--
-- The gradient of a parameter that is used several times is added up once, when all are known: after the node of the
-- first use, which runs last. `pass_ns` tells the backward passes apart, between which at least one other op starts, if
-- only the one that makes the first gradient: it is the start of the last such op.
--
-- :reads forward_item, node, nesting, cpu_span, name_class
-- :column event_id BIGINT  the op, of `forward_item`
-- :column pass_ns BIGINT   start of the last op outside of the engine before the gradient is added: equal within a
--                          backward pass
with adding as (
    select
        node.event_id,
        node.track_id,
        node.start_ns
    from node
    inner join cpu_span on node.event_id = cpu_span.event_id
    inner join name_class on cpu_span.class_id = name_class.class_id
    where name_class.bucket = 'gradient_accumulation'
),

outside as (
    select start_ns
    from forward_item
    where call_id is null
),

added as (
    select
        adding.track_id,
        adding.start_ns,
        outside.start_ns as pass_ns
    from adding
    asof inner join outside on adding.start_ns >= outside.start_ns
),

computing as (
    select
        node.track_id,
        node.start_ns,
        nesting.track_id as forward_track_id,
        nesting.start_ns as forward_ns
    from node
    left join nesting on node.forward_id = nesting.event_id
    where node.event_id not in (select event_id from adding)
),

origin as (
    select distinct
        computing.forward_track_id,
        computing.forward_ns,
        added.pass_ns
    from added
    asof inner join computing on added.track_id = computing.track_id and added.start_ns >= computing.start_ns
    where computing.forward_ns is not null
)

select distinct
    forward_item.event_id,
    origin.pass_ns
from origin
asof inner join forward_item
    on origin.forward_track_id = forward_item.track_id and origin.forward_ns >= forward_item.start_ns
where origin.forward_ns < forward_item.end_ns
order by forward_item.event_id, origin.pass_ns
