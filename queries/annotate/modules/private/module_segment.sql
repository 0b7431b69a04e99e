-- Each thread's time, cut at the starts and ends of module calls and autograd nodes, with the module and pass of each
-- piece.
--
-- The innermost call or node counts. A module call inside a node is recomputed forward (activation checkpointing). A
-- node without a module hides the enclosing module: the node's work belongs to its creator, not to the code running it.
--
-- :reads module_call, model_op, node, node_module
-- :only_with module_call or node
-- :column track_id BIGINT   the thread
-- :column start_ns BIGINT   start of the piece
-- :column end_ns BIGINT     end of the piece
-- :column active_id BIGINT  the innermost node, or call of `module_call`
-- :column module_id BIGINT  module of the call or node, of `model_op`; NULL for a node with an unknown module
-- :column pass VARCHAR      forward, backward or recompute; NULL without a module
-- :column evidence VARCHAR  source of the module, as in `module_call` and `node_module`; NULL without a module
-- :column is_node BOOLEAN   `active_id` is a node
with span as (
    -- Module calls and autograd nodes.
    select
        module_call.event_id,
        module_call.track_id,
        module_call.start_ns,
        module_call.end_ns,
        module_call.tree_depth,
        model_op.module_id,
        false as is_node,
        module_call.evidence
    from module_call
    left join model_op on module_call.module_key = model_op.module_key
    where module_call.end_ns > module_call.start_ns
    union all
    select
        node.event_id,
        node.track_id,
        node.start_ns,
        node.end_ns,
        node.depth,
        node_module.module_id,
        true,
        node_module.evidence
    from node
    left join node_module on node.event_id = node_module.event_id
    where node.end_ns > node.start_ns
),

-- Starts and ends of spans.
edge as (
    select
        *,
        start_ns as at_ns,
        1 as opens,
        tree_depth as in_order,
        1 as change
    from span
    union all
    select
        *,
        end_ns,
        0,
        -tree_depth,
        -1
    from span
),

-- Edges, with the number of spans and nodes open on the thread right before.
counted_edge as (
    select
        *,
        sum(change) over edges - change as depth,
        sum(change * is_node::integer) over edges - change * is_node::integer as node_depth
    from edge
    window edges as (partition by track_id order by at_ns, opens, in_order rows unbounded preceding)
),

-- Spans, with the number of enclosing spans.
span_start as (
    select
        event_id,
        track_id,
        start_ns,
        depth,
        depth + 1 as inner_depth,
        module_id,
        evidence,
        case when is_node then 'backward' when node_depth > 0 then 'recompute' else 'forward' end as pass,
        is_node
    from counted_edge
    where opens = 1
),

-- Spans, with the innermost enclosing span.
span_around as (
    select
        inside.event_id,
        container.event_id as container_id
    from span_start as inside
    asof left join span_start as container
        on
            inside.track_id = container.track_id
            and inside.depth = container.inner_depth
            and inside.start_ns >= container.start_ns
),

-- Edges, with the innermost span from then on.
active_change as (
    select
        edge.track_id,
        edge.at_ns,
        edge.opens,
        edge.in_order,
        case when edge.opens = 1 then edge.event_id else span_around.container_id end as active_id
    from edge
    left join span_around on edge.event_id = span_around.event_id
),

-- Time between two edges of a thread.
piece as (
    select
        track_id,
        at_ns as start_ns,
        lead(at_ns) over (partition by track_id order by at_ns, opens, in_order) as end_ns,
        active_id
    from active_change
)

select
    piece.track_id,
    piece.start_ns,
    piece.end_ns,
    piece.active_id,
    span_start.module_id,
    case when span_start.module_id is not null then span_start.pass end as pass,
    case when span_start.module_id is not null then span_start.evidence end as evidence,
    span_start.is_node
from piece
inner join span_start on piece.active_id = span_start.event_id
where piece.end_ns > piece.start_ns
order by piece.track_id, piece.start_ns
