-- One row per unit (neighbours of one name) of the selected steps, marking tiny units.
--
-- A place (`kept_node`) is the same node in each step. Disturbances only make a measurement longer, so the shortest
-- times of a place are the reproducible ones. The share of a unit is therefore the shortest time of its place in the
-- typical steps, divided by the shortest time of the container. Shares from half to twice `tiny_pct` are borderline.
-- For these, the median share of all places with the same type in containers of one type decides, so equal nodes are
-- treated alike. Modules, units right inside a step, and units with over `dominant_pct` of the container's time are
-- never tiny.
--
-- :takes step, tiny_pct, dominant_pct
-- :reads kept_node, sibling, viewed_step
-- :column unit BIGINT            number of the unit, as in `sibling`
-- :column container_key UBIGINT  kept node around the node
-- :column track_id BIGINT        thread or stream of the unit; NULL if unknown
-- :column member_count BIGINT    nodes in the unit
-- :column is_of_step BOOLEAN     the container is a step, which shows all of its phases
-- :column share_pct DOUBLE       usual share of the container's time
-- :column is_tiny BOOLEAN        the unit can be in a group of tiny units

-- one row per unit: its time and number of nodes
with unit_total as (
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
contained_unit as (
    select
        unit_total.*,
        container.rank,
        container.step,
        container.kind as container_kind,
        container.long_ns as container_ns,
        hash(container.rank, container.step = -1, container.type_key, unit_total.type_key) as family_key
    from unit_total
    inner join kept_node as container on unit_total.container_key = container.key
),

place_share as (
    select
        place,
        any_value(family_key) as family_key,
        100.0 * min(long_ns) / nullif(min(container_ns), 0) as place_pct
    from contained_unit
    where step = -1 or (rank, step) in (select (rank, step) from viewed_step where is_typical)
    group by place
),

family_share as (
    select
        family_key,
        median(place_pct) as family_pct
    from place_share
    group by family_key
)

select
    contained_unit.unit,
    contained_unit.container_key,
    contained_unit.track_id,
    contained_unit.member_count,
    contained_unit.container_kind = 'step' as is_of_step,
    coalesce(place_share.place_pct, 100.0 * contained_unit.long_ns / nullif(contained_unit.container_ns, 0), 0)
        as share_pct,
    contained_unit.container_kind != 'step'
    and contained_unit.kind != 'module'
    and 100.0 * contained_unit.long_ns <= $dominant_pct * contained_unit.container_ns
    and share_pct < 2 * $tiny_pct
    and (share_pct < $tiny_pct / 2 or coalesce(family_share.family_pct, share_pct) < $tiny_pct) as is_tiny
from contained_unit
left join place_share on contained_unit.place = place_share.place
left join family_share on contained_unit.family_key = family_share.family_key
where $step is null or contained_unit.step = $step
