-- One row per informative node: a child without new information is replaced by its own children.
--
-- A child adds no information if it is an only child, or if it takes nearly all of its parent's time and its siblings
-- cannot be opened. The decision is made once for all nodes with the same name in parents of the same name, by majority
-- over the typical steps. Nodes with a name occurring twice in one parent are always kept.
--
-- :takes max_depth, dominant_pct
-- :reads viewed_step, weighed_node
-- :column key UBIGINT            the node
-- :column container_key UBIGINT  kept node around the node; NULL for a step
-- :column level BIGINT           number of nodes around the node in the raw tree
-- :column rank RANK
-- :column step STEP              -1 outside every step
-- :column kind VARCHAR           step, phase, module, annotation, op, call, kernel, copy or memset
-- :column name_key UBIGINT       hash of kind and short name
-- :column type_key UBIGINT       hash of kind and type
-- :column order_ns BIGINT        start of the node; -1 for steps and for phases outside the loop
-- :column cpu_ns BIGINT          time on the thread with the node's most time
-- :column long_ns BIGINT         the longer of the CPU time and the duration of the node's GPU work
-- :column track_id BIGINT        thread with the node's most time, or the stream of a node without a thread; NULL if
--                                unknown
-- :column is_slice BOOLEAN       the node is a slice of a thread
-- :column place UBIGINT          hash of the names from the root down to the node, each with its number among equal
--                                names; equal for the same node in each step
with recursive content as (
    select
        parent_key as key,
        bool_or(kind in ('op', 'annotation', 'module')) as has_op,
        bool_or(kind in ('module', 'annotation')) as has_module
    from weighed_node
    group by parent_key
),

-- One row per node with a parent.
child as (
    select
        child.key,
        child.rank,
        child.step,
        child.kind,
        -- Equal for all children of one type in parents of one type, but separate outside steps.
        hash(child.rank, child.step = -1, parent.type_key, child.type_key) as pair_key,
        child.parent_key,
        100.0 * child.cpu_ns / nullif(parent.cpu_ns, 0) as cpu_pct,
        100.0 * child.gpu_ns / nullif(parent.gpu_ns, 0) as gpu_pct,
        child.namesake,
        coalesce(content.has_op, false) as has_op,
        case when child.kind = 'module' then coalesce(content.has_module, false) else has_op end as is_openable
    from weighed_node as child
    inner join weighed_node as parent on child.parent_key = parent.key
    left join content on child.key = content.key
),

child_count as (
    select
        parent_key,
        count(*) as child_count,
        sum(has_op::integer) as openable_count
    from child
    group by parent_key
),

-- one row per pair of parent type and child type whose children add no information
futile_pair as (
    select child.pair_key
    from child
    inner join child_count on child.parent_key = child_count.parent_key
    where child.step = -1 or (child.rank, child.step) in (select (rank, step) from viewed_step where is_typical)
    group by child.pair_key
    having
        max(child.namesake) = 0
        and $dominant_pct < 100
        and (
            avg((child_count.child_count = 1)::integer) > 0.5
            or (
                avg((child_count.openable_count > 1)::integer) < 0.5
                and avg(child.cpu_pct) > $dominant_pct
                and coalesce(avg(child.gpu_pct), 100) >= $dominant_pct
            )
        )
),

replaced_node as (
    select child.key
    from child
    inner join futile_pair on child.pair_key = futile_pair.pair_key
    where child.is_openable and child.kind in ('module', 'op', 'annotation')
),

-- From the root down: one row per visited node, with the kept node around it and the container for its children.
reached_node as (
    select
        key,
        null::ubigint as container_key,
        key as inner_container,
        0 as depth,
        true as is_kept,
        hash(rank, step = -1) as place
    from weighed_node
    where parent_key is null
    union all
    select
        weighed_node.key,
        reached_node.inner_container,
        case when replaced_node.key is null then weighed_node.key else reached_node.inner_container end,
        reached_node.depth + (replaced_node.key is null)::integer,
        replaced_node.key is null,
        hash(reached_node.place, weighed_node.name_key, weighed_node.namesake)
    from reached_node
    inner join weighed_node on reached_node.key = weighed_node.parent_key
    left join replaced_node on weighed_node.key = replaced_node.key
    where reached_node.depth < $max_depth or not reached_node.is_kept
)

select
    weighed_node.key,
    reached_node.container_key,
    weighed_node.level,
    weighed_node.rank,
    weighed_node.step,
    weighed_node.kind,
    weighed_node.name_key,
    weighed_node.type_key,
    weighed_node.order_ns,
    weighed_node.cpu_ns,
    greatest(weighed_node.cpu_ns, weighed_node.gpu_ns) as long_ns,
    weighed_node.track_id,
    weighed_node.is_slice,
    reached_node.place
from weighed_node
inner join reached_node on weighed_node.key = reached_node.key
where reached_node.is_kept and reached_node.depth <= $max_depth
