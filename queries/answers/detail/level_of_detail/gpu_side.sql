-- One row per node and stream with GPU work of the node or its descendants.
--
-- :reads raw_node, tree_work
-- :column key UBIGINT             the node
-- :column track_id BIGINT         the stream
-- :column start_ns BIGINT         start of the first work
-- :column end_ns BIGINT           end of the last work
-- :column time_ns BIGINT          sum of the durations
-- :column gpu_event_count BIGINT  kernels, copies and memsets
-- :column busy_ns BIGINT          part of the duration in which no earlier work keeps the device busy
-- :column idle_ns BIGINT          time the device waited for this work

-- one row per node, stream and branch below the node
with recursive branch as (
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
        branch.track_id,
        min(branch.start_ns),
        max(branch.end_ns),
        sum(branch.time_ns)::bigint,
        sum(branch.gpu_event_count)::bigint,
        sum(branch.busy_ns)::bigint,
        sum(branch.idle_ns)::bigint
    from branch
    inner join raw_node on branch.key = raw_node.key
    where raw_node.parent_key is not null
    group by raw_node.parent_key, branch.track_id
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
from branch
group by key, track_id
