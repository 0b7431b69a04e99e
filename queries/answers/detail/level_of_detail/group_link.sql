-- One row per node or group and its parent: a node, a run, a unit or a bundle.
--
-- If a node or group has more than `max_children` children on one thread, the children are split evenly into bundles,
-- which are groups of neighbours. Large bundles are split again.
--
-- :takes max_children
-- :reads grouped_node
-- :column key UBIGINT          the node or group
-- :column parent_key UBIGINT   the parent
-- :column is_in_group BOOLEAN  the parent is a group

-- one row per node, unit or run and its holder
with recursive content as (
    select
        coalesce(run_key, unit_key, key) as key,
        container_key as holder_key,
        false as is_in_group,
        track_id,
        min(position) as position
    from grouped_node
    group by all
    union all
    select
        coalesce(unit_key, key),
        run_key,
        true,
        track_id,
        min(position)
    from grouped_node
    where run_key is not null
    group by all
    union all
    select
        key,
        unit_key,
        true,
        track_id,
        position
    from grouped_node
    where unit_key is not null
),

-- One row per node or group and thread with too many children.
crowd as (
    select
        holder_key,
        track_id,
        count(*) as size
    from content
    group by holder_key, track_id
    having count(*) > $max_children
),

-- One row per node or group of a crowd and bundle around it, from the outside in. The first bundle is the whole crowd.
bundle_member as (
    select
        content.key,
        content.track_id,
        null::ubigint as outer_key,
        content.holder_key as bundle_key,
        content.is_in_group,
        crowd.size,
        row_number() over (
            partition by content.holder_key, content.track_id order by content.position
        ) - 1 as number
    from content
    inner join crowd
        on content.holder_key = crowd.holder_key and content.track_id is not distinct from crowd.track_id
    union all
    select
        key,
        track_id,
        bundle_key,
        hash(bundle_key, track_id, part) | ((1::ubigint << 63) + (1::ubigint << 62)),
        -- whether the parent of the bundle is a group
        outer_key is not null or is_in_group,
        ((part + 1) * size + parts - 1) // parts - (part * size + parts - 1) // parts,
        number - (part * size + parts - 1) // parts
    from (
        select
            *,
            least($max_children // 2, ceil(4.0 * size / $max_children))::bigint as parts,
            number * parts // size as part
        from bundle_member
        where size > $max_children
    ) as too_full
)

select
    content.key,
    content.holder_key as parent_key,
    content.is_in_group
from content
anti join bundle_member on content.key = bundle_member.key
union all
select
    key,
    bundle_key,
    true
from bundle_member
where size <= $max_children
union all
select distinct
    bundle_key,
    outer_key,
    is_in_group
from bundle_member
where outer_key is not null
