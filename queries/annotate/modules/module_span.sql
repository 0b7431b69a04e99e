-- Module calls per pass: frames in forward and recompute, and runs of nodes in backward. Spans of one thread and depth
-- never overlap.
--
-- Backward has no frames. A backward span is a run of a module's nodes without other nodes in between. The enclosing
-- modules have no backward span of their own.
--
-- :reads module_call, model_op, module_segment, node, node_module
-- :only_with model_op
-- :column module_id BIGINT       the module
-- :column call BIGINT            number of the module's call in this pass, from 0
-- :column pass VARCHAR           forward, backward or recompute
-- :column track_id BIGINT        the thread
-- :column depth BIGINT           depth of the module in the tree
-- :column start_ns BIGINT        start
-- :column end_ns BIGINT          end
-- :column event_id BIGINT        the `nn.Module` frame; NULL for spans without a frame (backward, or found by
--                                alignment)
-- :column evidence VARCHAR       nn_module, alignment, sequence_number, flow or autograd_order
-- :column confidence_pct DOUBLE  certainty of an alignment: 100 if no other position is possible; NULL without an
--                                alignment
with frame as (
    -- Calls of modules in forward and recompute.
    select
        model_op.module_id,
        coalesce(module_segment.pass, 'forward') as pass,
        module_call.track_id,
        model_op.depth,
        module_call.start_ns,
        module_call.end_ns,
        case when module_call.event_id >= 0 then module_call.event_id end as event_id,
        module_call.evidence,
        module_call.confidence_pct
    from module_call
    inner join model_op on module_call.module_key = model_op.module_key
    left join module_segment
        on
            module_call.track_id = module_segment.track_id
            and module_call.start_ns = module_segment.start_ns
            and module_call.event_id = module_segment.active_id
),

-- Outermost autograd nodes.
root_node as (
    select
        node.track_id,
        node.start_ns,
        node.end_ns,
        node_module.module_id,
        node_module.evidence
    from node
    left join node_module on node.event_id = node_module.event_id
    qualify is_outermost(node.start_ns, node.end_ns, node.track_id, -node.end_ns)
),

-- The same nodes, and whether the previous node belongs to another module.
outer_node as (
    select
        *,
        coalesce(
            module_id is distinct from lag(module_id) over (partition by track_id order by start_ns), true
        ) as is_new
    from root_node
),

-- The same nodes, with the number of the run on the thread.
node_of_run as (
    select
        *,
        sum(is_new::integer) over (partition by track_id order by start_ns rows unbounded preceding) as number
    from outer_node
),

-- Runs of nodes with a known module.
backward_run as (
    select
        node_of_run.module_id,
        'backward' as pass,
        node_of_run.track_id,
        any_value(model_op.depth) as depth,
        min(node_of_run.start_ns) as start_ns,
        max(node_of_run.end_ns) as end_ns,
        null::bigint as event_id,
        min(node_of_run.evidence) as evidence,
        null::double as confidence_pct
    from node_of_run
    inner join model_op on node_of_run.module_id = model_op.module_id
    group by node_of_run.module_id, node_of_run.track_id, node_of_run.number
),

span as (
    select * from frame
    union all
    select * from backward_run
)

select
    module_id,
    row_number() over (partition by module_id, pass order by start_ns, track_id) - 1 as call,
    pass,
    track_id,
    depth,
    start_ns,
    end_ns,
    event_id,
    evidence,
    confidence_pct
from span
order by track_id, start_ns, depth
