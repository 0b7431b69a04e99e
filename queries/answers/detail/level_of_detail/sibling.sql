-- A row is a kept node among those beside it: all that its container holds on one thread, in order of time.
--
-- Neighbours of one name are a unit.
--
-- :reads kept_node
-- :column key UBIGINT            the node
-- :column container_key UBIGINT  the kept node around it
-- :column track_id BIGINT        its thread or stream; NULL when unknown
-- :column position BIGINT        number of the node, in order of containers, threads and time
-- :column unit BIGINT            number of its unit, in the same order
-- :column is_first BOOLEAN       it is the first of its unit
-- :column kind VARCHAR           module, op, …
-- :column type_key UBIGINT       its kind and type
-- :column place UBIGINT          its place, as in `kept_node`
-- :column long_ns BIGINT         what it takes
with neighbour as (
    -- One window over all, as there are many containers, and most have few nodes.
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
