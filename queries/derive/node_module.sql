-- The module of each autograd node: the innermost module call around the forward op that created it.
--
-- :reads node, nesting, frame_segment, model_op
with origin as (
    select
        node.event_id,
        node.evidence,
        forward_op.track_id,
        forward_op.start_ns
    from node
    inner join nesting as forward_op on node.forward_id = forward_op.event_id
),

placed as (
    select
        origin.event_id,
        origin.evidence,
        case when origin.start_ns < frame_segment.end_ns then frame_segment.name end as module_name
    from origin
    asof left join frame_segment
        on origin.track_id = frame_segment.track_id and origin.start_ns >= frame_segment.start_ns
)

select
    placed.event_id,
    model_op.module_id,
    placed.evidence
from placed
inner join model_op on placed.module_name = model_op.name
order by placed.event_id
