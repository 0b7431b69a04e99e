-- A row is a unit of the steps that are asked for: neighbours of one name, and whether they are tiny.
--
-- What disturbs a measurement makes it longer: the shortest times of a place are those that come again. So the share of
-- a unit is that of its place's shortest time in the typical steps. Shares from half to twice `tiny_pct` are in doubt:
-- there the median share of all places with that type in containers of one type decides, so that likes are treated
-- alike.
--
-- :takes step, tiny_pct, dominant_pct
-- :reads kept_node, sibling, viewed_step
-- :column unit BIGINT            number of the unit, as in `sibling`
-- :column container_key UBIGINT  the kept node around it
-- :column track_id BIGINT        its thread or stream; NULL when unknown
-- :column member_count BIGINT    nodes in it
-- :column is_of_step BOOLEAN     its container is a step, which shows all of its phases
-- :column share_pct DOUBLE       usual share of its container's time
-- :column is_tiny BOOLEAN        it can be in a group of tiny ones
with summed as (
    select
        unit,
        any_value(container_key) as container_key,
        any_value(track_id) as track_id,
        any_value(type_key) as type_key,
        any_value(kind) as kind,
        max(place) filter (where is_first) as place,
        count(*) as member_count,
        sum(long_ns) as long_ns
    from sibling
    group by unit
),

-- One row per unit of any viewed step.
contained as (
    select
        summed.*,
        container.rank,
        container.step,
        container.kind as container_kind,
        container.long_ns as container_ns,
        hash(container.rank, container.step = -1, container.type_key, summed.type_key) as family_key
    from summed
    inner join kept_node as container on summed.container_key = container.key
),

usual_of_place as (
    select
        place,
        any_value(family_key) as family_key,
        100.0 * min(long_ns) / nullif(min(container_ns), 0) as place_pct
    from contained
    where step = -1 or (rank, step) in (select (rank, step) from viewed_step where is_typical)
    group by place
),

usual_of_family as (
    select
        family_key,
        median(place_pct) as family_pct
    from usual_of_place
    group by family_key
)

select
    contained.unit,
    contained.container_key,
    contained.track_id,
    contained.member_count,
    contained.container_kind = 'step' as is_of_step,
    coalesce(usual_of_place.place_pct, 100.0 * contained.long_ns / nullif(contained.container_ns, 0), 0) as share_pct,
    contained.container_kind != 'step'
    and contained.kind != 'module'
    and 100.0 * contained.long_ns <= $dominant_pct * contained.container_ns
    and share_pct < 2 * $tiny_pct
    and (share_pct < $tiny_pct / 2 or coalesce(usual_of_family.family_pct, share_pct) < $tiny_pct) as is_tiny
from contained
left join usual_of_place on contained.place = usual_of_place.place
left join usual_of_family on contained.family_key = usual_of_family.family_key
where $step is null or contained.step = $step
