-- A row is a node and a stream on which GPU work of the node, or of any node in it, runs.
--
-- :reads raw_node, tree_work
-- :column key UBIGINT             the node
-- :column track_id BIGINT         the stream
-- :column start_ns BIGINT         start of the first of this work
-- :column end_ns BIGINT           end of the last
-- :column time_ns BIGINT          duration of all of it
-- :column gpu_event_count BIGINT  kernels, copies and memsets
-- :column busy_ns BIGINT          the part of it in which no earlier work keeps the device busy
-- :column idle_ns BIGINT          time the device waited for it
with recursive handed_up as (
    select
        node_key as key,
        track_id,
        start_ns,
        end_ns,
        dur_ns as time_ns,
        1::bigint as gpu_event_count,
        busy_ns,
        idle_ns
    from tree_work
    union all
    select
        raw_node.parent_key,
        handed_up.track_id,
        min(handed_up.start_ns),
        max(handed_up.end_ns),
        sum(handed_up.time_ns)::bigint,
        sum(handed_up.gpu_event_count)::bigint,
        sum(handed_up.busy_ns)::bigint,
        sum(handed_up.idle_ns)::bigint
    from handed_up
    inner join raw_node on handed_up.key = raw_node.key
    where raw_node.parent_key is not null
    group by raw_node.parent_key, handed_up.track_id
)

select
    key,
    track_id,
    min(start_ns) as start_ns,
    max(end_ns) as end_ns,
    sum(time_ns)::bigint as time_ns,
    sum(gpu_event_count)::bigint as gpu_event_count,
    sum(busy_ns)::bigint as busy_ns,
    sum(idle_ns)::bigint as idle_ns
from handed_up
group by key, track_id
