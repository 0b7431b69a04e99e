-- A row is a phase node of the tree: a phase of the loop, or what runs beside the loop under one phase of a step.
--
-- What runs on other threads, or was launched by nothing that is seen, and belongs to no phase of the loop, is at home
-- in a phase beside it.
--
-- `step_key` and `node_key`, as those of `tree_slice` and `tree_work`, tell all nodes of the tree apart: a node is the
-- n-th of its sort, and its key 4 n for a step, 4 n + 1 for a phase, 4 n + 2 for a slice, 4 n + 3 for GPU work.
--
-- :reads homed_slice, loop_phase, viewed_work
-- :column home_id BIGINT     number of the phase, as in `loop_phase`; the others follow
-- :column rank BIGINT        process rank
-- :column step BIGINT        the step; -1 outside every step
-- :column phase VARCHAR      its name
-- :column is_beside BOOLEAN  it is no phase of the loop's thread
-- :column track_id BIGINT    the loop's thread; NULL beside it
-- :column start_ns BIGINT    start on this thread; NULL beside it
-- :column end_ns BIGINT      end on this thread; NULL beside it
-- :column event_id BIGINT    the event that is the phase; NULL without one
-- :column step_key UBIGINT   the key of the step's node
-- :column node_key UBIGINT   the key of its own node
with homeless as (
    select
        rank,
        step,
        phase
    from homed_slice
    where home_id is null
    union
    select
        viewed_work.rank,
        viewed_work.step,
        viewed_work.phase
    from viewed_work
    anti join homed_slice
        on
            viewed_work.rank = homed_slice.rank
            and coalesce(viewed_work.runtime_id, viewed_work.op_id) = homed_slice.event_id
),

phase_node as (
    select
        home_id,
        rank,
        step,
        phase,
        false as is_beside,
        track_id,
        start_ns,
        end_ns,
        event_id
    from loop_phase
    union all
    select
        (select count(*) from loop_phase) + row_number() over (order by rank, step, phase),
        rank,
        step,
        phase,
        true,
        null,
        null,
        null,
        null
    from homeless
)

select
    *,
    (4 * dense_rank() over (order by rank, step))::ubigint as step_key,
    (4 * home_id + 1)::ubigint as node_key
from phase_node
