-- One row per kernel, copy or memset, with its position in the tree.
--
-- If a call launches only one piece of GPU work, the call and the work are one node.
--
-- :reads event, gpu_gap, name_info, tree_phase, tree_slice, viewed_work
-- :column rank RANK
-- :column step STEP           -1 outside every step
-- :column phase VARCHAR       phase; the bucket if unknown
-- :column event_id BIGINT     the GPU event
-- :column kind VARCHAR        kernel, copy or memset
-- :column name VARCHAR        full name
-- :column short_name VARCHAR  name for people
-- :column module_id BIGINT    module; NULL if unknown
-- :column pass VARCHAR        forward, backward or recompute; NULL if the module is unknown
-- :column track_id BIGINT     the stream
-- :column start_ns BIGINT     start of the GPU event
-- :column end_ns BIGINT       end of the GPU event
-- :column dur_ns BIGINT       duration of the GPU event
-- :column busy_ns BIGINT      part of the duration in which no earlier work keeps the device busy
-- :column idle_ns BIGINT      time the device waited for this work
-- :column is_call BOOLEAN     the work shares a node with its launching call
-- :column level BIGINT        number of ancestors, if the work has a node of its own
-- :column node_key UBIGINT    key of the node, see `tree_phase`
-- :column parent_key UBIGINT  key of the launching node, or else of a phase outside the loop, if the work has a node of
--                             its own

-- one row per GPU event, with the node of its launch
with launched_work as (
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
    launched_work.rank,
    launched_work.step,
    launched_work.phase,
    launched_work.event_id,
    case event.category when 'kernel' then 'kernel' when 'gpu_memcpy' then 'copy' else 'memset' end as kind,
    event.name,
    coalesce(name_info.short_name, event.name) as short_name,
    launched_work.module_id,
    launched_work.pass,
    event.track_id,
    event.start_ns,
    event.end_ns,
    event.dur_ns,
    launched_work.busy_ns,
    coalesce(gpu_gap.end_ns - gpu_gap.start_ns, 0) as idle_ns,
    launched_work.is_call,
    coalesce(launched_work.launcher_depth + 3, 2) as level,
    case
        when launched_work.is_call then 4 * launched_work.launcher_id + 2
        else 4 * launched_work.work_id + 3
    end::ubigint as node_key,
    coalesce(4 * launched_work.launcher_id + 2, 4 * beside.home_id + 1)::ubigint as parent_key
from launched_work
inner join event on launched_work.rank = event.rank and launched_work.event_id = event.event_id
left join name_info
    on (event.rank, event.category, event.name) = (name_info.rank, name_info.category, name_info.name)
left join gpu_gap on launched_work.rank = gpu_gap.rank and launched_work.event_id = gpu_gap.next_id
left join (select * from tree_phase where is_beside) as beside
    on launched_work.rank = beside.rank and launched_work.step = beside.step and launched_work.phase = beside.phase
