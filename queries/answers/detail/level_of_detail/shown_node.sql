-- One row per kept node of the selected steps, with its names.
--
-- :takes step
-- :reads kept_node, tree_phase, tree_slice, tree_work
-- :column key UBIGINT            the node
-- :column container_key UBIGINT  kept node around the node; NULL for a step
-- :column rank RANK
-- :column step STEP              -1 outside every step
-- :column kind VARCHAR           step, phase, module, annotation, op, call, kernel, copy or memset
-- :column name VARCHAR           full name
-- :column short_name VARCHAR     name for people
-- :column phase VARCHAR          phase; the bucket if unknown; NULL for steps
-- :column module_id BIGINT       module; NULL if unknown
-- :column pass VARCHAR           forward, backward or recompute; NULL if the module is unknown
-- :column event_id BIGINT        event on the CPU; NULL without an event
-- :column gpu_event_id BIGINT    GPU event; NULL without a GPU event
-- :column order_ns BIGINT        start of the node; -1 for steps and for phases outside the loop
-- :column cpu_ns BIGINT          time on the thread with the node's most time
-- :column long_ns BIGINT         the longer of the CPU time and the duration of the node's GPU work
-- :column track_id BIGINT        thread with the node's most time, or the stream of a node without a thread; NULL if
--                                unknown
-- :column is_slice BOOLEAN       the node is a slice of a thread

-- one row per node, with its names and events
with named_node as (
    select
        tree_slice.node_key,
        coalesce(work.name, tree_slice.name) as name,
        coalesce(work.short_name, tree_slice.short_name) as short_name,
        tree_slice.phase,
        tree_slice.module_id,
        tree_slice.pass,
        tree_slice.event_id,
        work.event_id as gpu_event_id
    from tree_slice
    left join tree_work as work on tree_slice.node_key = work.node_key
    where $step is null or tree_slice.step = $step
    union all
    select
        node_key,
        name,
        short_name,
        phase,
        module_id,
        pass,
        null,
        event_id
    from tree_work
    where not is_call and ($step is null or step = $step)
    union all
    select
        node_key,
        phase as name,
        phase as short_name,
        phase,
        null,
        null,
        event_id,
        null
    from tree_phase
    union all
    select distinct
        step_key,
        case when step = -1 then 'outside steps' else 'step ' || step end as name,
        name as short_name,
        null,
        null,
        null,
        null,
        null
    from tree_phase
)

select
    kept_node.key,
    kept_node.container_key,
    kept_node.rank,
    kept_node.step,
    kept_node.kind,
    named_node.name,
    named_node.short_name,
    named_node.phase,
    named_node.module_id,
    named_node.pass,
    named_node.event_id,
    named_node.gpu_event_id,
    kept_node.order_ns,
    kept_node.cpu_ns,
    kept_node.long_ns,
    kept_node.track_id,
    kept_node.is_slice
from kept_node
inner join named_node on kept_node.key = named_node.node_key
where $step is null or kept_node.step = $step
