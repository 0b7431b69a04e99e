-- A row is a kernel, copy or memset at its place in the tree.
--
-- The only work of a call and that call are one node.
--
-- :reads event, gpu_gap, name_info, tree_phase, tree_slice, viewed_work
-- :column rank BIGINT         process rank
-- :column step BIGINT         the step; -1 outside every step
-- :column phase VARCHAR       the phase, or the bucket where none is known
-- :column event_id BIGINT     the GPU event
-- :column kind VARCHAR        kernel, copy or memset
-- :column name VARCHAR        full name
-- :column short_name VARCHAR  name for people
-- :column module_id BIGINT    the module; NULL where none is known
-- :column pass VARCHAR        forward, backward or recompute; NULL where no module is known
-- :column track_id BIGINT     the stream
-- :column start_ns BIGINT     its start
-- :column end_ns BIGINT       its end
-- :column dur_ns BIGINT       its duration
-- :column busy_ns BIGINT      the part of it in which no earlier work keeps the device busy
-- :column idle_ns BIGINT      time the device waited for this work
-- :column is_call BOOLEAN     it is one node with the call that launched it
-- :column level BIGINT        number of nodes around it, if it is a node of its own
-- :column node_key UBIGINT    the key of its node, see `tree_phase`
-- :column parent_key UBIGINT  the key of what launched it, or else of a phase beside the loop, if it is a node of its
--                             own
with launched as (
    select
        viewed_work.*,
        coalesce(call.node_id, op.node_id) as launcher_id,
        least(case when call.node_id is not null then call.depth else op.depth end, 100) as launcher_depth,
        coalesce(viewed_work.kernel_count = 1 and call.slice_id = call.node_id, false) as is_call,
        row_number() over (order by viewed_work.rank, viewed_work.event_id) as work_id
    from viewed_work
    left join tree_slice as call on viewed_work.rank = call.rank and viewed_work.runtime_id = call.event_id
    left join tree_slice as op on viewed_work.rank = op.rank and viewed_work.op_id = op.event_id
)

select
    launched.rank,
    launched.step,
    launched.phase,
    launched.event_id,
    case event.category when 'kernel' then 'kernel' when 'gpu_memcpy' then 'copy' else 'memset' end as kind,
    event.name,
    coalesce(name_info.short_name, event.name) as short_name,
    launched.module_id,
    launched.pass,
    event.track_id,
    event.start_ns,
    event.end_ns,
    event.dur_ns,
    launched.busy_ns,
    coalesce(gpu_gap.end_ns - gpu_gap.start_ns, 0) as idle_ns,
    launched.is_call,
    coalesce(launched.launcher_depth + 3, 2) as level,
    case when launched.is_call then 4 * launched.launcher_id + 2 else 4 * launched.work_id + 3 end::ubigint as node_key,
    coalesce(4 * launched.launcher_id + 2, 4 * beside.home_id + 1)::ubigint as parent_key
from launched
inner join event on launched.rank = event.rank and launched.event_id = event.event_id
left join name_info
    on (event.rank, event.category, event.name) = (name_info.rank, name_info.category, name_info.name)
left join gpu_gap on launched.rank = gpu_gap.rank and launched.event_id = gpu_gap.next_id
left join (select * from tree_phase where is_beside) as beside
    on launched.rank = beside.rank and launched.step = beside.step and launched.phase = beside.phase
