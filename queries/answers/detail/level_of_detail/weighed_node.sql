-- One row per node of the raw tree, with its CPU and GPU time.
--
-- :reads gpu_side, raw_node, thread_side
-- :column key UBIGINT         the node
-- :column parent_key UBIGINT  parent node; NULL for a step
-- :column level BIGINT        number of ancestors
-- :column rank RANK
-- :column step STEP           -1 outside every step
-- :column kind VARCHAR        step, phase, module, annotation, op, call, kernel, copy or memset
-- :column name_key UBIGINT    hash of kind and short name
-- :column type_key UBIGINT    hash of kind and type
-- :column order_ns BIGINT     start of the node; -1 for steps and for phases outside the loop
-- :column cpu_ns BIGINT       time on the thread with the node's most time
-- :column gpu_ns BIGINT       duration of the node's GPU work
-- :column track_id BIGINT     thread with the node's most time, or the stream of a node without a thread; NULL if
--                             unknown
-- :column is_slice BOOLEAN    the node is a slice of a thread
-- :column namesake BIGINT     number of earlier nodes of the same name in the parent
with gpu_time as (
    select
        key,
        sum(time_ns) as gpu_ns,
        arg_max(track_id, (time_ns, -track_id)) as track_id
    from gpu_side
    group by key
),

thread_time as (
    select
        key,
        max(time_ns) as cpu_ns,
        arg_max(track_id, (time_ns, -track_id)) as track_id
    from thread_side
    group by key
),

-- One window over all nodes, since most parents have few children.
numbered_node as (
    select
        key,
        parent_key,
        name_key,
        row_number() over (order by parent_key, name_key, order_ns, key) as number
    from raw_node
),

first_of_name as (
    select
        parent_key,
        name_key,
        min(number) as number
    from numbered_node
    group by parent_key, name_key
)

select
    raw_node.key,
    raw_node.parent_key,
    raw_node.level,
    raw_node.rank,
    raw_node.step,
    raw_node.kind,
    raw_node.name_key,
    raw_node.type_key,
    raw_node.order_ns,
    coalesce(raw_node.cpu_ns, thread_time.cpu_ns, 0) as cpu_ns,
    coalesce(gpu_time.gpu_ns, 0)::bigint as gpu_ns,
    coalesce(raw_node.track_id, thread_time.track_id, gpu_time.track_id) as track_id,
    raw_node.is_slice,
    numbered_node.number - first_of_name.number as namesake
from raw_node
inner join numbered_node on raw_node.key = numbered_node.key
inner join first_of_name
    on
        numbered_node.name_key = first_of_name.name_key
        and numbered_node.parent_key is not distinct from first_of_name.parent_key
left join gpu_time on raw_node.key = gpu_time.key
left join thread_time on raw_node.key = thread_time.key
