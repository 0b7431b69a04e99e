-- Autograd nodes (backward functions), each with the forward op that created the node.
--
-- A forward op carries the sequence number of the *next* node, and ops that create no node share the number with the
-- creating op. The creator is the last op with the number before the node starts. `Fwd thread id` uses a separate
-- numbering of threads; an id is mapped to the thread on which most of its sequence numbers occur. The id is not needed
-- for a sequence number found on only one thread. Without sequence numbers, the profiler's forward-to-backward flows
-- identify the creator.
--
-- :reads op, cpu_span, nesting, flow, name_class
-- :only_with name_class where is_node
-- :column event_id BIGINT    the node, or the engine call of the node
-- :column track_id BIGINT    thread
-- :column start_ns BIGINT    start
-- :column end_ns BIGINT      end
-- :column depth INTEGER      number of enclosing events on the thread
-- :column forward_id BIGINT  the forward op that created the node; NULL if unknown
-- :column evidence VARCHAR   source of `forward_id`: sequence_number or flow; NULL if unknown
with node as (
    -- Autograd nodes with the recorded sequence and thread numbers.
    select
        nesting.event_id,
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns,
        nesting.depth,
        op.sequence_number,
        op.forward_thread
    from cpu_span
    inner join name_class on cpu_span.class_id = name_class.class_id and name_class.is_node
    inner join nesting on cpu_span.event_id = nesting.event_id
    left join op on nesting.event_id = op.event_id
),

-- Forward ops with a sequence number.
forward_op as (
    select
        cpu_span.event_id,
        cpu_span.track_id,
        cpu_span.start_ns,
        op.sequence_number
    from op
    inner join cpu_span on op.event_id = cpu_span.event_id
    where
        op.sequence_number is not null
        and coalesce(op.forward_thread, 0) = 0
        and op.event_id not in (select event_id from node)
),

-- The thread of each `Fwd thread id`.
thread_of_id as (
    select
        node.forward_thread,
        forward_op.track_id
    from (select distinct forward_thread, sequence_number from node where forward_thread > 0) as node
    inner join (select distinct track_id, sequence_number from forward_op) as forward_op
        on node.sequence_number = forward_op.sequence_number
    group by node.forward_thread, forward_op.track_id
    qualify row_number() over (partition by node.forward_thread order by count(*) desc, forward_op.track_id) = 1
),

-- Nodes with a known sequence number and thread. If the recorder writes no forward thread (`emit_nvtx`), only one
-- thread may have the number in forward.
numbered_node as (
    select
        node.event_id,
        node.start_ns,
        node.sequence_number,
        coalesce(thread_of_id.track_id, owner.track_id) as track_id
    from node
    left join thread_of_id on node.forward_thread = thread_of_id.forward_thread
    left join (
        select
            sequence_number,
            any_value(track_id) as track_id
        from forward_op
        where sequence_number in (select sequence_number from node where forward_thread is null)
        group by sequence_number
        having count(distinct track_id) = 1
    ) as owner
        on node.sequence_number = owner.sequence_number and node.forward_thread is null
    where node.sequence_number is not null and coalesce(thread_of_id.track_id, owner.track_id) is not null
),

-- Nodes with the forward op found by sequence number.
creator_by_number as (
    select
        numbered_node.event_id,
        forward_op.event_id as forward_id
    from numbered_node
    asof inner join forward_op
        on
            numbered_node.track_id = forward_op.track_id
            and numbered_node.sequence_number = forward_op.sequence_number
            and numbered_node.start_ns >= forward_op.start_ns
),

-- Nodes without a creator so far. Flow ends and ops with equal thread and start are reduced to one row each before the
-- joins: a damaged trace may have millions of pairs.
node_without_number as (
    select * from node
    where event_id not in (select event_id from creator_by_number)
),

-- Ends of forward-to-backward flows at these nodes.
arrow_head as (
    select distinct
        track_id,
        start_ns,
        flow_id
    from flow
    where
        kind = 'fwdbwd' and ph = 'f'
        and (track_id, start_ns) in (select (track_id, start_ns) from node_without_number)
),

-- Starts of these flows. Flow numbers can be reused; a flow starts at the last start with its number before its end.
arrow_tail as (
    select
        flow_id,
        start_ns,
        arg_min(track_id, event_id) as track_id
    from flow
    where kind = 'fwdbwd' and ph = 's' and flow_id in (select flow_id from arrow_head)
    group by flow_id, start_ns
),

-- The innermost op at each flow start.
innermost_op as (
    select
        track_id,
        start_ns,
        max({'depth': depth, 'event_id': event_id}) as op
    from nesting
    where op_id = event_id and (track_id, start_ns) in (select (track_id, start_ns) from arrow_tail)
    group by track_id, start_ns
),

-- Thread and start of nodes, with the op at the flow's start.
creator_by_flow as (
    select
        arrow_head.track_id,
        arrow_head.start_ns,
        max(innermost_op.op).event_id as forward_id
    from arrow_head
    asof inner join arrow_tail
        on arrow_head.flow_id = arrow_tail.flow_id and arrow_head.start_ns >= arrow_tail.start_ns
    inner join innermost_op
        on arrow_tail.track_id = innermost_op.track_id and arrow_tail.start_ns = innermost_op.start_ns
    group by arrow_head.track_id, arrow_head.start_ns
)

select
    node.event_id,
    node.track_id,
    node.start_ns,
    node.end_ns,
    node.depth,
    coalesce(creator_by_number.forward_id, creator_by_flow.forward_id) as forward_id,
    case
        when creator_by_number.forward_id is not null then 'sequence_number'
        when creator_by_flow.forward_id is not null then 'flow'
    end as evidence
from node
left join creator_by_number on node.event_id = creator_by_number.event_id
left join creator_by_flow on node.track_id = creator_by_flow.track_id and node.start_ns = creator_by_flow.start_ns
order by node.track_id, node.start_ns
