-- Results of forward ops with a pending gradient. Views of another tensor are excluded.
--
-- :reads sized_node, event
-- :column forward_id BIGINT  the op
-- :column place BIGINT       position among the op's results, from 0
-- :column track_id BIGINT    the thread
-- :column start_ns BIGINT    start of the op
-- :column elements DOUBLE    elements
-- :column item_bytes BIGINT  bytes per element
-- :column node_ns BIGINT     start of the autograd node
-- :column number BIGINT      number among the thread's results with the same number of elements and bytes, in order
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
