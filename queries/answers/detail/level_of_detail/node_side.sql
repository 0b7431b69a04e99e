-- One row per node or group and each thread or stream with time of it.
--
-- :reads gpu_side, group_member, shown_node, thread_side
-- :column key UBIGINT             the node or group
-- :column device VARCHAR          cpu or gpu
-- :column track_id BIGINT         the thread or stream; NULL if unknown
-- :column start_ns BIGINT         start on this track
-- :column end_ns BIGINT           end on this track
-- :column time_ns BIGINT          time on this track
-- :column gpu_event_count BIGINT  kernels, copies and memsets; 0 on the CPU
-- :column busy_ns BIGINT          GPU time in which no earlier work kept the device busy; 0 on the CPU
-- :column idle_ns BIGINT          time the device waited for this work; 0 on the CPU

-- one row per node and thread or stream
with side as (
    select
        key,
        'gpu' as device,
        track_id,
        start_ns,
        end_ns,
        time_ns,
        gpu_event_count,
        busy_ns,
        idle_ns
    from gpu_side
    union all
    select
        key,
        'cpu',
        track_id,
        start_ns,
        end_ns,
        time_ns,
        0,
        0,
        0
    from thread_side
    union all
    select
        key,
        'cpu',
        track_id,
        order_ns,
        order_ns + cpu_ns,
        cpu_ns,
        0,
        0,
        0
    from shown_node
    where is_slice
)

select * from side
union all
select
    group_member.group_key,
    side.device,
    side.track_id,
    min(side.start_ns),
    max(side.end_ns),
    sum(side.time_ns)::bigint,
    sum(side.gpu_event_count)::bigint,
    sum(side.busy_ns)::bigint,
    sum(side.idle_ns)::bigint
from group_member
inner join side on group_member.node_key = side.key
group by group_member.group_key, side.device, side.track_id
