-- Autograd nodes, extended by the forward ops found by the alignment.
--
-- A node inside an engine call has the same forward op as the engine call.
--
-- :writes node
-- :reads node, autograd_match, cpu_span, name_class
-- :column event_id BIGINT    the node, or the engine call of the node
-- :column track_id BIGINT    thread
-- :column start_ns BIGINT    start
-- :column end_ns BIGINT      end
-- :column depth INTEGER      number of enclosing events on the thread
-- :column forward_id BIGINT  the forward op that created the node; NULL if unknown
-- :column evidence VARCHAR   source of `forward_id`: sequence_number, flow or alignment; NULL if unknown
with matched_node as (
    -- Nodes matched by the alignment.
    select
        node.track_id,
        node.start_ns,
        node.end_ns,
        autograd_match.event_id,
        autograd_match.forward_id
    from autograd_match
    inner join node on autograd_match.event_id = node.event_id
),

-- All nodes, with the forward op of the matched node, if the node is matched or inside a matched node.
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
            when node.start_ns < matched_node.end_ns and not is_engine_mark(name_class.name)
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
