-- One row per node of the complete tree: a step, a phase, a slice, or GPU work with a node of its own.
--
-- Names are compared by hash: two nodes of equal kind and name have the same `name_key`.
--
-- :reads tree_phase, tree_slice, tree_work
-- :column key UBIGINT         key of the node, see `tree_phase`
-- :column parent_key UBIGINT  parent node; NULL for a step
-- :column level BIGINT        number of ancestors
-- :column rank RANK
-- :column step STEP           -1 outside every step
-- :column kind VARCHAR        step, phase, module, annotation, op, call, kernel, copy or memset
-- :column name_key UBIGINT    hash of kind and short name
-- :column type_key UBIGINT    hash of kind and type; equal for all steps and for all modules of one class
-- :column order_ns BIGINT     start of the node; -1 (before all others) for steps and for phases outside the loop
-- :column cpu_ns BIGINT       time on the node's thread; 0 for GPU work; NULL for steps and phases, which may run on
--                             several threads
-- :column track_id BIGINT     thread or stream; NULL for steps and phases
-- :column is_slice BOOLEAN    the node is a slice of a thread

-- one row per node, with its name and type
with named_node as (
    select distinct
        step_key as key,
        null::ubigint as parent_key,
        0::bigint as level,
        rank,
        step,
        'step' as kind,
        case when step = -1 then 'outside steps' else 'step ' || step end as name,
        'step' as type,
        -1::bigint as order_ns,
        null::bigint as cpu_ns,
        null::bigint as track_id,
        false as is_slice
    from tree_phase
    union all
    select
        node_key,
        step_key,
        1,
        rank,
        step,
        'phase',
        phase,
        phase as type,
        coalesce(start_ns, -1),
        null,
        null,
        false
    from tree_phase
    union all
    select
        tree_slice.node_key,
        tree_slice.parent_key,
        tree_slice.depth + 2,
        tree_slice.rank,
        tree_slice.step,
        coalesce(work.kind, tree_slice.kind),
        coalesce(work.short_name, tree_slice.short_name),
        coalesce(work.short_name, tree_slice.type),
        tree_slice.start_ns,
        tree_slice.end_ns - tree_slice.start_ns,
        tree_slice.track_id,
        true
    from tree_slice
    left join tree_work as work on tree_slice.node_key = work.node_key
    where tree_slice.node_key is not null
    union all
    select
        node_key,
        parent_key,
        level,
        rank,
        step,
        kind,
        short_name,
        short_name as type,
        start_ns,
        0,
        track_id,
        false
    from tree_work
    where not is_call
)

select
    key,
    parent_key,
    level,
    rank,
    step,
    kind,
    hash(kind, name) as name_key,
    hash(kind, type) as type_key,
    order_ns,
    cpu_ns,
    track_id,
    is_slice
from named_node
