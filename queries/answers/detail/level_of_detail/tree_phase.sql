-- One row per phase node: a phase of the loop, or activity outside the loop under one phase name of a step.
--
-- Activity on other threads without a matching phase of the loop, and GPU work without a visible launch, belong to a
-- phase outside the loop.
--
-- `step_key` and `node_key`, like the keys of `tree_slice` and `tree_work`, identify every node of the tree. The n-th
-- node of a kind has the key 4 n for a step, 4 n + 1 for a phase, 4 n + 2 for a slice, and 4 n + 3 for GPU work.
--
-- :reads homed_slice, loop_phase, viewed_work
-- :column home_id BIGINT     number of the phase, as in `loop_phase`; phases outside the loop follow
-- :column rank RANK
-- :column step STEP          -1 outside every step
-- :column phase PHASE
-- :column is_beside BOOLEAN  the phase is outside the loop, not on its thread
-- :column track_id BIGINT    the loop's thread; NULL outside the loop
-- :column start_ns BIGINT    start on the loop's thread; NULL outside the loop
-- :column end_ns BIGINT      end on the loop's thread; NULL outside the loop
-- :column event_id BIGINT    event of the phase; NULL without an event
-- :column step_key UBIGINT   key of the step's node
-- :column node_key UBIGINT   key of the phase's node

-- one row per phase name of a step with slices or GPU work outside the loop's phases
with outside_phase as (
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

-- one row per phase node, with its number
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
    from outside_phase
)

select
    *,
    (4 * dense_rank() over (order by rank, step))::ubigint as step_key,
    (4 * home_id + 1)::ubigint as node_key
from phase_node
