-- A row is a node that is worth a look: where a child adds nothing, what is in it has taken its place.
--
-- A child adds nothing that is alone, or takes nearly all of its parent's time beside others that cannot be opened.
-- That is decided once for all nodes with the same name in parents of the same name, by most of those of the typical
-- steps, and never for a name that comes twice in one parent.
--
-- :takes max_depth, dominant_pct
-- :reads viewed_step, weighed_node
-- :column key UBIGINT            the node
-- :column container_key UBIGINT  the kept node around it; NULL for a step
-- :column level BIGINT           number of nodes around it in the raw tree
-- :column rank BIGINT            process rank
-- :column step BIGINT            the step; -1 outside every step
-- :column kind VARCHAR           step, phase, module, annotation, op, call, kernel, copy or memset
-- :column name_key UBIGINT       its kind and short name
-- :column type_key UBIGINT       its kind and type
-- :column order_ns BIGINT        its start; -1 of steps and of phases beside the loop
-- :column cpu_ns BIGINT          time on the thread where it takes most
-- :column long_ns BIGINT         this or the duration of its GPU work, whichever is longer
-- :column track_id BIGINT        the thread where it takes most, without one the stream; NULL when unknown
-- :column is_slice BOOLEAN       it is a slice of a thread
-- :column place UBIGINT          the names from the top down to it, each with its number among those of that name: the
--                                same for a node that comes again in each step
with recursive content as (
    select
        parent_key as key,
        bool_or(kind in ('op', 'annotation', 'module')) as has_op,
        bool_or(kind in ('module', 'annotation')) as has_module
    from weighed_node
    group by parent_key
),

-- One row per node that has a parent.
child as (
    select
        child.key,
        child.rank,
        child.step,
        child.kind,
        -- The same for all children of one type in parents of one type, but apart outside steps.
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

replaced as (
    select child.key
    from child
    inner join futile_pair on child.pair_key = futile_pair.pair_key
    where child.is_openable and child.kind in ('module', 'op', 'annotation')
),

-- From the top: one row per node that is reached, with the kept node around it, and which one is around its children.
reached as (
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
        reached.inner_container,
        case when replaced.key is null then weighed_node.key else reached.inner_container end,
        reached.depth + (replaced.key is null)::integer,
        replaced.key is null,
        hash(reached.place, weighed_node.name_key, weighed_node.namesake)
    from reached
    inner join weighed_node on reached.key = weighed_node.parent_key
    left join replaced on weighed_node.key = replaced.key
    where reached.depth < $max_depth or not reached.is_kept
)

select
    weighed_node.key,
    reached.container_key,
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
    reached.place
from weighed_node
inner join reached on weighed_node.key = reached.key
where reached.is_kept and reached.depth <= $max_depth
