-- A row is a kept node of the steps that are asked for, with its names.
--
-- :takes step
-- :reads kept_node, tree_phase, tree_slice, tree_work
-- :column key UBIGINT            the node
-- :column container_key UBIGINT  the kept node around it; NULL for a step
-- :column rank BIGINT            process rank
-- :column step BIGINT            the step; -1 outside every step
-- :column kind VARCHAR           step, phase, module, annotation, op, call, kernel, copy or memset
-- :column name VARCHAR           full name
-- :column short_name VARCHAR     name for people
-- :column phase VARCHAR          the phase; the bucket where none is known; NULL for steps
-- :column module_id BIGINT       the module; NULL where none is known
-- :column pass VARCHAR           forward, backward or recompute; NULL where no module is known
-- :column event_id BIGINT        the event on the CPU; NULL without one
-- :column gpu_event_id BIGINT    the GPU event; NULL without one
-- :column order_ns BIGINT        its start; -1 of steps and of phases beside the loop
-- :column cpu_ns BIGINT          time on the thread where it takes most
-- :column long_ns BIGINT         this or the duration of its GPU work, whichever is longer
-- :column track_id BIGINT        the thread where it takes most, without one the stream; NULL when unknown
-- :column is_slice BOOLEAN       it is a slice of a thread
with named as (
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
    named.name,
    named.short_name,
    named.phase,
    named.module_id,
    named.pass,
    named.event_id,
    named.gpu_event_id,
    kept_node.order_ns,
    kept_node.cpu_ns,
    kept_node.long_ns,
    kept_node.track_id,
    kept_node.is_slice
from kept_node
inner join named on kept_node.key = named.node_key
where $step is null or kept_node.step = $step
