-- A row is a slice of a thread at its place in the tree.
--
-- The slices of a thread are numbered so that those inside a slice follow it. Only damage nests deeper than a hundred:
-- such a slice is no node, and its GPU work belongs to the last slice around it that is one.
--
-- :reads homed_slice, tree_phase
-- :column slice_id BIGINT     number of the slice
-- :column rank BIGINT         process rank
-- :column step BIGINT         the step; -1 outside every step
-- :column phase VARCHAR       the phase; `outside_steps` where none is known
-- :column home_id BIGINT      its phase node
-- :column track_id BIGINT     the thread
-- :column start_ns BIGINT     its start
-- :column end_ns BIGINT       its end
-- :column kind VARCHAR        annotation, op, call or module
-- :column name VARCHAR        full name
-- :column short_name VARCHAR  name for people
-- :column type VARCHAR        what its likes have in common, as in `homed_slice`
-- :column event_id BIGINT     the event; NULL for a module without one
-- :column module_id BIGINT    the module; NULL where none is known
-- :column pass VARCHAR        forward, backward or recompute; NULL where no module is known
-- :column depth BIGINT        number of slices around it
-- :column node_id BIGINT      the slice whose node it is: itself, or deeper than a hundred that around it
-- :column node_key UBIGINT    the key of its node, see `tree_phase`; NULL deeper than a hundred
-- :column parent_key UBIGINT  the key of the slice or phase around it
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

-- The start of each slice, and the end, as -1, of each that can have others in it.
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

nested as (
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

-- One row per slice that is too deep, and the last slice around it that is not.
too_deep as (
    select
        nested.slice_id,
        bottom.slice_id as node_id
    from (select * from nested where depth > 100) as nested
    asof inner join (select * from container where inner_depth = 101) as bottom
        on
            nested.home_id = bottom.home_id
            and nested.track_id = bottom.track_id
            and nested.start_ns >= bottom.start_ns
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
    nested.depth::bigint as depth,
    case when nested.depth <= 100 then slice.slice_id else too_deep.node_id end as node_id,
    case when nested.depth <= 100 then 4 * slice.slice_id + 2 end::ubigint as node_key,
    coalesce(4 * nested.around_id + 2, 4 * slice.home_id + 1)::ubigint as parent_key
from slice
inner join nested on slice.slice_id = nested.slice_id
left join too_deep on slice.slice_id = too_deep.slice_id
