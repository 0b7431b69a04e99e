-- A row is a node of the raw tree, and what it takes.
--
-- :reads gpu_side, raw_node, thread_side
-- :column key UBIGINT         the node
-- :column parent_key UBIGINT  the node around it; NULL for a step
-- :column level BIGINT        number of nodes around it
-- :column rank BIGINT         process rank
-- :column step BIGINT         the step; -1 outside every step
-- :column kind VARCHAR        step, phase, module, annotation, op, call, kernel, copy or memset
-- :column name_key UBIGINT    its kind and short name
-- :column type_key UBIGINT    its kind and type
-- :column order_ns BIGINT     its start; -1 of steps and of phases beside the loop
-- :column cpu_ns BIGINT       time on the thread where it takes most
-- :column gpu_ns BIGINT       duration of its GPU work
-- :column track_id BIGINT     the thread where it takes most, without one the stream; NULL when unknown
-- :column is_slice BOOLEAN    it is a slice of a thread
-- :column namesake BIGINT     number of nodes of its name before it in its parent
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

-- One window over all, as there are many parents, and most have few children.
numbered as (
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
    from numbered
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
    numbered.number - first_of_name.number as namesake
from raw_node
inner join numbered on raw_node.key = numbered.key
inner join first_of_name
    on
        numbered.name_key = first_of_name.name_key
        and numbered.parent_key is not distinct from first_of_name.parent_key
left join gpu_time on raw_node.key = gpu_time.key
left join thread_time on raw_node.key = thread_time.key
