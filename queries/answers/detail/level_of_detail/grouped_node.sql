-- One row per node of the selected steps, with the groups around the node.
--
-- Tiny neighbouring units make a run. A run becomes a group if it has several units and is not the whole content of its
-- container: a group around everything would only add a click. A unit of several nodes becomes a group if its run is no
-- group, or if the group of the run would be too full.
--
-- Group keys are distinct from node keys: the highest bit is set. Keys of runs count up from there. Keys of units also
-- have the third bit set, and keys of bundles (`group_link`) the second.
--
-- :takes max_children
-- :reads shown_node, sibling, sibling_unit
-- :column key UBIGINT            the node
-- :column container_key UBIGINT  kept node around the node
-- :column track_id BIGINT        thread or stream of the node; NULL if unknown
-- :column position BIGINT        number of the node, in order of containers, threads and time
-- :column run_key UBIGINT        group of the run; NULL if the run is no group
-- :column unit_key UBIGINT       group of the unit, inside the run's group; NULL if the unit is no group
-- :column share_pct DOUBLE       usual share of the container's time, split evenly over the nodes of the unit

-- one row per unit; `is_linked` marks a unit in the same run as the unit before it
with linked_unit as (
    select
        *,
        coalesce(
            is_tiny
            and lag(is_tiny) over in_order
            and container_key = lag(container_key) over in_order
            and track_id is not distinct from lag(track_id) over in_order,
            false
        ) as is_linked
    from sibling_unit
    window in_order as (order by unit)
),

-- One row per unit, with the number of its run.
unit_of_run as (
    select
        *,
        sum((not is_linked)::integer) over (order by unit rows unbounded preceding) as run
    from linked_unit
),

unit_count as (
    select
        container_key,
        track_id,
        count(*) as unit_count
    from sibling_unit
    group by container_key, track_id
),

-- one row per run: whether the run is a group, and whether its units are groups
run as (
    select
        unit_of_run.run,
        not unit_of_run.is_of_step as can_group,
        can_group and count(*) > 1 and count(*) < any_value(unit_count.unit_count) as is_group,
        can_group and any_value(unit_count.unit_count) > 1 and (
            not is_group or sum(unit_of_run.member_count) > $max_children
        ) as has_units
    from unit_of_run
    inner join unit_count
        on
            unit_of_run.container_key = unit_count.container_key
            and unit_of_run.track_id is not distinct from unit_count.track_id
    group by unit_of_run.run, unit_of_run.is_of_step
)

select
    shown_node.key,
    shown_node.container_key,
    shown_node.track_id,
    sibling.position,
    case when run.is_group then (1::ubigint << 63) + run.run::ubigint end as run_key,
    case
        when run.has_units and unit_of_run.member_count > 1
            then (1::ubigint << 63) + (1::ubigint << 61) + unit_of_run.unit::ubigint
    end as unit_key,
    unit_of_run.share_pct / unit_of_run.member_count as share_pct
from shown_node
inner join sibling on shown_node.key = sibling.key
inner join unit_of_run on sibling.unit = unit_of_run.unit
inner join run on unit_of_run.run = run.run
