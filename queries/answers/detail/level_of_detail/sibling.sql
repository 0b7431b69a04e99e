-- One row per kept node, with its position among the siblings on the same thread.
--
-- Neighbours of one name are a unit.
--
-- :reads kept_node
-- :column key UBIGINT            the node
-- :column container_key UBIGINT  kept node around the node
-- :column track_id BIGINT        thread or stream of the node; NULL if unknown
-- :column position BIGINT        number of the node, in order of containers, threads and time
-- :column unit BIGINT            number of the node's unit, in the same order
-- :column is_first BOOLEAN       the node is the first of its unit
-- :column kind VARCHAR           module, op, …
-- :column type_key UBIGINT       hash of kind and type
-- :column place UBIGINT          place of the node, as in `kept_node`
-- :column long_ns BIGINT         time of the node

-- one row per kept node: its position, and whether it starts a unit
with neighbour as (
    -- One window over all nodes, since most containers have few nodes.
    select
        key,
        container_key,
        track_id,
        row_number() over in_order as position,
        not coalesce(
            container_key = lag(container_key) over in_order
            and name_key = lag(name_key) over in_order
            and track_id is not distinct from lag(track_id) over in_order,
            false
        ) as is_first,
        kind,
        type_key,
        place,
        long_ns
    from kept_node
    where container_key is not null
    window in_order as (order by container_key, track_id, order_ns, level, key)
)

select
    key,
    container_key,
    track_id,
    position,
    sum(is_first::integer) over (order by position rows unbounded preceding)::bigint as unit,
    is_first,
    kind,
    type_key,
    place,
    long_ns
from neighbour
