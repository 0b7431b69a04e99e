-- One row per slice of a thread, with its position in the tree.
--
-- Slices of a thread are numbered so that inner slices follow their outer slice. Only damaged traces nest deeper than a
-- hundred levels. Deeper slices get no node, and their GPU work belongs to the innermost slice with a node.
--
-- :reads homed_slice, tree_phase
-- :column slice_id BIGINT     number of the slice
-- :column rank RANK
-- :column step STEP           -1 outside every step
-- :column phase VARCHAR       phase; `outside_steps` if unknown
-- :column home_id BIGINT      phase node of the slice
-- :column track_id BIGINT     the thread
-- :column start_ns BIGINT     start of the slice
-- :column end_ns BIGINT       end of the slice
-- :column kind VARCHAR        annotation, op, call or module
-- :column name VARCHAR        full name
-- :column short_name VARCHAR  name for people
-- :column type VARCHAR        type for comparing similar slices, as in `homed_slice`
-- :column event_id BIGINT     event; NULL for a module without an event
-- :column module_id BIGINT    module; NULL if unknown
-- :column pass VARCHAR        forward, backward or recompute; NULL if the module is unknown
-- :column depth BIGINT        number of slices around the slice
-- :column node_id BIGINT      the slice itself, or for a depth over a hundred the innermost slice with a node
-- :column node_key UBIGINT    key of the node, see `tree_phase`; NULL for a depth over a hundred
-- :column parent_key UBIGINT  key of the slice or phase around the slice

-- one row per slice, with its number and phase
with slice as (
    select
        homed_slice.* exclude (home_id, layer),
        coalesce(homed_slice.home_id, beside.home_id) as home_id,
        row_number() over (
            order by
                coalesce(homed_slice.home_id, beside.home_id),
                homed_slice.track_id,
                homed_slice.start_ns,
                homed_slice.end_ns desc,
                homed_slice.layer,
                homed_slice.event_id,
                homed_slice.module_id,
                homed_slice.pass
        ) as slice_id
    from homed_slice
    left join (select * from tree_phase where is_beside) as beside
        on homed_slice.rank = beside.rank and homed_slice.step = beside.step and homed_slice.phase = beside.phase
),

-- The start of each slice, and the end (-1) of each slice with a duration.
border as (
    select
        slice_id,
        home_id,
        track_id,
        start_ns as at_ns,
        slice_id as in_order,
        (end_ns > start_ns)::integer as change
    from slice
    union all
    select
        -1,
        home_id,
        track_id,
        end_ns,
        -1,
        -1
    from slice
    where end_ns > start_ns
),

-- one row per start or end of a slice, with the depth before it
border_depth as (
    select
        slice_id,
        home_id,
        track_id,
        at_ns as start_ns,
        change,
        sum(change) over (
            partition by home_id, track_id order by at_ns, in_order rows unbounded preceding
        ) - change as depth
    from border
),

container as (
    select
        slice_id,
        home_id,
        track_id,
        start_ns,
        depth + 1 as inner_depth
    from border_depth
    where slice_id > 0 and change = 1
),

-- one row per slice, with the slice around it
nested_slice as (
    select
        inside.slice_id,
        inside.home_id,
        inside.track_id,
        inside.start_ns,
        inside.depth,
        container.slice_id as around_id
    from border_depth as inside
    asof left join container
        on
            inside.home_id = container.home_id
            and inside.track_id = container.track_id
            and inside.depth = container.inner_depth
            and inside.start_ns >= container.start_ns
    where inside.slice_id > 0
),

-- One row per slice deeper than a hundred levels, with the innermost slice above the limit.
deep_slice as (
    select
        nested_slice.slice_id,
        bottom.slice_id as node_id
    from (select * from nested_slice where depth > 100) as nested_slice
    asof inner join (select * from container where inner_depth = 101) as bottom
        on
            nested_slice.home_id = bottom.home_id
            and nested_slice.track_id = bottom.track_id
            and nested_slice.start_ns >= bottom.start_ns
)

select
    slice.slice_id,
    slice.rank,
    slice.step,
    slice.phase,
    slice.home_id,
    slice.track_id,
    slice.start_ns,
    slice.end_ns,
    slice.kind,
    slice.name,
    slice.short_name,
    slice.type,
    slice.event_id,
    slice.module_id,
    slice.pass,
    nested_slice.depth::bigint as depth,
    case when nested_slice.depth <= 100 then slice.slice_id else deep_slice.node_id end as node_id,
    case when nested_slice.depth <= 100 then 4 * slice.slice_id + 2 end::ubigint as node_key,
    coalesce(4 * nested_slice.around_id + 2, 4 * slice.home_id + 1)::ubigint as parent_key
from slice
inner join nested_slice on slice.slice_id = nested_slice.slice_id
left join deep_slice on slice.slice_id = deep_slice.slice_id
