-- Calls of the autograd engine, one per executed node, each with the enclosing engine call, if any.
--
-- A nested call belongs to a separate graph, for example a checkpoint that recomputes part of the model. Very old
-- traces have bare nodes without engine calls; the nodes then serve as calls.
--
-- :reads node, cpu_span, name_class
-- :column event_id BIGINT      the engine call; in very old traces, the node
-- :column track_id BIGINT      thread
-- :column start_ns BIGINT      start
-- :column end_ns BIGINT        end
-- :column depth INTEGER        number of enclosing events on the thread
-- :column forward_id BIGINT    the forward op that created the node; NULL if unknown
-- :column token VARCHAR        name of the node in lower case without `Backward0` and `_`, as `addmm`; empty for a node
--                              without a creating op
-- :column container_id BIGINT  the innermost enclosing engine call; NULL if absent
with node_token as (
    -- Nodes and engine calls, with the token from the name.
    select
        node.event_id,
        node.track_id,
        node.start_ns,
        node.end_ns,
        node.depth,
        node.forward_id,
        regexp_replace(lower(regexp_extract(name_class.name, '(\w+?)Backwards?\d*$', 1)), '_', '', 'g') as token,
        starts_with(name_class.name, 'autograd::engine::evaluate_function: ') as is_call,
        name_class.bucket
    from node
    inner join cpu_span on node.event_id = cpu_span.event_id
    inner join name_class on cpu_span.class_id = name_class.class_id
    where node.end_ns > node.start_ns
),

-- Engine calls, or all nodes if the trace has no engine calls.
engine as (
    select *
    from node_token
    where is_call or (select not bool_or(every_node.is_call) from node_token as every_node)
),

-- Calls of nodes without a token of their own (`CopySlices`, for an op that writes into a view), with the token of the
-- inner node.
inner_node as (
    select
        engine.event_id,
        arg_min(node_token.token, (node_token.start_ns, node_token.depth)) as token
    from node_token
    asof inner join engine on node_token.track_id = engine.track_id and node_token.start_ns >= engine.start_ns
    where engine.token = '' and engine.bucket is null and node_token.token != '' and node_token.start_ns < engine.end_ns
    group by engine.event_id
)

select
    engine.event_id,
    engine.track_id,
    engine.start_ns,
    engine.end_ns,
    engine.depth,
    engine.forward_id,
    coalesce(inner_node.token, engine.token) as token,
    engine.around_id as container_id
from nested('engine', track_id, depth) as engine
left join inner_node on engine.event_id = inner_node.event_id
order by engine.track_id, engine.start_ns
