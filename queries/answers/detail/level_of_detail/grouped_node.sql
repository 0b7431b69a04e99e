-- A row is a node of the steps that are asked for, and the groups that it is in.
--
-- Neighbouring units that are tiny make a run. A run is a group if it has more than one unit and is not all that its
-- container shows: that would be one more click to the same picture. A unit of more than one node is a group too where
-- it stands in no group, or in one that would be too full.
--
-- Groups have keys of their own: the highest bit is set, which it is in no key of a node. Runs count up from there,
-- units from where the third bit is set, too, and keys of bundles (`group_link`) have the second.
--
-- :takes max_children
-- :reads shown_node, sibling, sibling_unit
-- :column key UBIGINT            the node
-- :column container_key UBIGINT  the kept node around it
-- :column track_id BIGINT        its thread or stream; NULL when unknown
-- :column position BIGINT        number of the node, in order of containers, threads and time
-- :column run_key UBIGINT        the group of its run; NULL where that is none
-- :column unit_key UBIGINT       the group of its unit, inside that of the run; NULL where that is none
-- :column share_pct DOUBLE       usual share of its container's time, the same for each node of its unit
with linked as (
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
    from linked
),

unit_count as (
    select
        container_key,
        track_id,
        count(*) as unit_count
    from sibling_unit
    group by container_key, track_id
),

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
