-- Autograd nodes again, with the forward ops that the alignment has found.
--
-- The function itself lies inside the engine's call of it, and has the same forward op.
--
-- :writes node
-- :reads node, autograd_match, cpu_span, name_class
-- :column event_id BIGINT    the node, or the engine's call of it
-- :column track_id BIGINT    its thread
-- :column start_ns BIGINT    start
-- :column end_ns BIGINT      end
-- :column depth INTEGER      number of events around it on its thread
-- :column forward_id BIGINT  the forward op that created it; NULL where nothing tells
-- :column evidence VARCHAR   sequence_number, flow or alignment: what tells `forward_id`; NULL where nothing does
with matched_node as (
    -- Nodes that the alignment has matched.
    select
        node.track_id,
        node.start_ns,
        node.end_ns,
        autograd_match.event_id,
        autograd_match.forward_id
    from autograd_match
    inner join node on autograd_match.event_id = node.event_id
),

-- All nodes, with the op of the matched node that each one is or lies in.
fitted_node as (
    select
        node.event_id,
        node.track_id,
        node.start_ns,
        node.end_ns,
        node.depth,
        node.forward_id,
        node.evidence,
        case
            when node.event_id = matched_node.event_id then matched_node.forward_id
            when node.start_ns < matched_node.end_ns and not starts_with(name_class.name, 'autograd::engine::')
                then matched_node.forward_id
        end as matched_id
    from node
    inner join cpu_span on node.event_id = cpu_span.event_id
    inner join name_class on cpu_span.class_id = name_class.class_id
    asof left join matched_node on node.track_id = matched_node.track_id and node.start_ns >= matched_node.start_ns
)

select
    event_id,
    track_id,
    start_ns,
    end_ns,
    depth,
    coalesce(forward_id, matched_id) as forward_id,
    coalesce(evidence, case when matched_id is not null then 'alignment' end) as evidence
from fitted_node
order by track_id, start_ns
