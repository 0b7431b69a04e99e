-- Results of ops of forward, while autograd waits for their gradients. Views of another tensor's elements are none.
--
-- :reads sized_node, event
-- :column forward_id BIGINT  the op
-- :column place BIGINT       which of its results, from 0
-- :column track_id BIGINT    the thread
-- :column start_ns BIGINT    start of the op
-- :column elements DOUBLE    elements
-- :column item_bytes BIGINT  bytes of an element
-- :column node_ns BIGINT     start of the node of autograd
-- :column number BIGINT      numbers results of a thread, of as many elements and bytes, in their order
with result as (
    select
        sized_node.forward_id,
        sized_node.place,
        event.track_id,
        event.start_ns,
        element_count(sized_node.sizes) as elements,
        sized_node.item_bytes,
        max(sized_node.start_ns) as node_ns
    from sized_node
    inner join event on sized_node.forward_id = event.event_id
    where
        sized_node.token not in (
            'view', 'unsafeview', 'reshapealias', 'transpose', 't', 'permute', 'unsqueeze', 'squeeze', 'alias',
            'detach', 'expand'
        )
    group by all
)

select
    *,
    row_number() over (
        partition by track_id, elements, item_bytes order by start_ns, forward_id, place
    ) as number
from result
