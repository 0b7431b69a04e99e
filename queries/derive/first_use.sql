-- Ops of the forward pass that hand a gradient on to a parameter in backward: the first ones that use it.
--
-- The gradient of a parameter that is used several times is added up once, when all are known: after the node of the
-- first use, which runs last.
--
-- :reads forward_item, node, nesting, cpu_span, name_class
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
        computing.forward_ns
    from adding
    asof inner join computing on adding.track_id = computing.track_id and adding.start_ns >= computing.start_ns
    where computing.forward_ns is not null
)

select distinct forward_item.event_id
from origin
asof inner join forward_item
    on origin.forward_track_id = forward_item.track_id and origin.forward_ns >= forward_item.start_ns
where origin.forward_ns < forward_item.end_ns
order by forward_item.event_id
