-- Autograd nodes (backward functions) and the forward op that created each.
--
-- A forward op carries the sequence number of the *next* node, so ops that create none share it with the op that does:
-- the creator is the last one to start before the node. `Fwd thread id` numbers threads in an order of its own; it
-- stands for the thread on which most of its sequence numbers occur. Where there are no numbers, the profiler's
-- forward-to-backward flows tell.
--
-- :reads op, cpu_span, nesting, flow, name_class
-- :only_with name_class where is_node
-- :column event_id BIGINT    the node, or the engine's call of it
-- :column track_id BIGINT    its thread
-- :column start_ns BIGINT    start
-- :column end_ns BIGINT      end
-- :column depth INTEGER      number of events around it on its thread
-- :column forward_id BIGINT  the forward op that created it; NULL where the trace does not tell
-- :column evidence VARCHAR   sequence_number or flow: what tells `forward_id`; NULL where nothing does
with node as (
    -- Autograd nodes with their numbers.
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

-- Ops of forward that carry a number.
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

-- The thread that each `Fwd thread id` stands for.
thread_of as (
    select
        node.forward_thread,
        forward_op.track_id
    from (select distinct forward_thread, sequence_number from node where forward_thread > 0) as node
    inner join (select distinct track_id, sequence_number from forward_op) as forward_op
        on node.sequence_number = forward_op.sequence_number
    group by node.forward_thread, forward_op.track_id
    qualify row_number() over (partition by node.forward_thread order by count(*) desc, forward_op.track_id) = 1
),

-- Nodes whose number and thread are known.
numbered_node as (
    select
        node.event_id,
        node.start_ns,
        node.sequence_number,
        thread_of.track_id
    from node
    inner join thread_of on node.forward_thread = thread_of.forward_thread
    where node.sequence_number is not null
),

-- Nodes with the forward op that their number tells.
by_number as (
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

-- Ends of arrows and ops that share a place are reduced to one row each before they meet: all pairs of them may be
-- millions in a damaged trace.
without_number as (
    select * from node
    where event_id not in (select event_id from by_number)
),

arrow_head as (
    select distinct
        track_id,
        start_ns,
        flow_id
    from flow
    where
        kind = 'fwdbwd' and ph = 'f'
        and (track_id, start_ns) in (select (track_id, start_ns) from without_number)
),

-- Where a number is used again, an arrow starts at the last place before its end.
arrow_tail as (
    select
        flow_id,
        start_ns,
        arg_min(track_id, event_id) as track_id
    from flow
    where kind = 'fwdbwd' and ph = 's' and flow_id in (select flow_id from arrow_head)
    group by flow_id, start_ns
),

-- The innermost op that starts where an arrow does.
innermost_op as (
    select
        track_id,
        start_ns,
        max({'depth': depth, 'event_id': event_id}) as op
    from nesting
    where op_id = event_id and (track_id, start_ns) in (select (track_id, start_ns) from arrow_tail)
    group by track_id, start_ns
),

-- Places of nodes, with the op that the arrow to there starts from.
maker as (
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
    coalesce(by_number.forward_id, maker.forward_id) as forward_id,
    case
        when by_number.forward_id is not null then 'sequence_number'
        when maker.forward_id is not null then 'flow'
    end as evidence
from node
left join by_number on node.event_id = by_number.event_id
left join maker on node.track_id = maker.track_id and node.start_ns = maker.start_ns
order by node.track_id, node.start_ns
