-- Calls inside autograd nodes of a learned forward op, if all calls in the node have the learned names.
--
-- :reads placed_call, node, nesting, event, given_node, given_call
-- :column event_id BIGINT     the call
-- :column argument_id BIGINT  arguments of the call; -1 if not observed
with learned_node as (
    -- Each call makes one node; duplicates are damaged and ignored.
    select *
    from given_node
    qualify count(*) over (partition by op_number, place) = 1
),

root as ( -- noqa: ST03
    -- Nodes, with the tree learned for the node of the same call.
    select
        node.event_id,
        node.track_id,
        node.start_ns,
        node.end_ns,
        node.depth,
        learned_node.tree_id
    from node
    inner join placed_call on node.forward_id = placed_call.event_id
    inner join learned_node
        on placed_call.op_number = learned_node.op_number and placed_call.place = learned_node.place
    inner join event on node.event_id = event.event_id and learned_node.name = event.name
)

select
    event_id,
    argument_id
from calls_as_learned('root', 'nesting', 'event', 'given_call')
