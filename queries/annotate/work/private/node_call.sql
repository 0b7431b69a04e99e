-- Calls in autograd nodes whose forward op was learned, where all in the node have the names that were learned.
--
-- :reads placed_call, node, nesting, event, given_node, given_call
-- :column event_id BIGINT     the call
-- :column argument_id BIGINT  what it was given; NULL where that was not observed
with learned_node as (
    -- Calls make one node each; what says otherwise is damage.
    select *
    from given_node
    qualify count(*) over (partition by op_number, place) = 1
),

root as (
    -- Nodes with what was learned of the node that the same call made.
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
),

op as (
    select
        nesting.event_id,
        nesting.track_id,
        nesting.start_ns,
        nesting.depth,
        event.name
    from nesting
    inner join event on nesting.event_id = event.event_id
    where event.category = 'cpu_op'
),

-- Ops in a node, numbered from 0.
inner_op as (
    select
        op.event_id,
        op.name,
        root.event_id as root_id,
        root.tree_id,
        row_number() over (partition by root.event_id order by op.start_ns, op.depth, op.event_id) - 1 as place
    from op
    asof inner join root on op.track_id = root.track_id and op.start_ns >= root.start_ns
    where op.start_ns < root.end_ns and (op.depth > root.depth or op.event_id = root.event_id)
),

compared_op as (
    select
        inner_op.event_id,
        given_call.argument_id,
        count(given_call.tree_id) over of_root = count(*) over of_root
        and max(given_call.call_count) over of_root = count(*) over of_root as is_same
    from inner_op
    left join given_call
        on
            inner_op.tree_id = given_call.tree_id
            and inner_op.place = given_call.place
            and inner_op.name = given_call.name
    window of_root as (partition by inner_op.root_id)
)

select
    event_id,
    argument_id
from compared_op
where is_same
