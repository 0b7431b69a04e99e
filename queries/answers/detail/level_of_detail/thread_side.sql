-- One row per step or phase and each thread with its activity; all other nodes run on one thread.
--
-- :reads tree_phase, tree_slice
-- :column key UBIGINT      the node
-- :column track_id BIGINT  the thread
-- :column start_ns BIGINT  start on the thread
-- :column end_ns BIGINT    end on the thread
-- :column time_ns BIGINT   time on the thread: time of the phases on the loop's thread, time of the slices on other
--                          threads

-- one row per phase node and thread: its outermost slices
with slice_thread as (
    select
        home_id,
        track_id,
        min(start_ns) as start_ns,
        max(end_ns) as end_ns,
        sum(end_ns - start_ns)::bigint as time_ns
    from tree_slice
    where depth = 0
    group by home_id, track_id
),

-- one row per phase node and thread, with the step
phase_thread as (
    select
        step_key,
        node_key,
        track_id,
        start_ns,
        end_ns,
        end_ns - start_ns as time_ns
    from tree_phase
    where track_id is not null
    union all
    select
        tree_phase.step_key,
        tree_phase.node_key,
        slice_thread.track_id,
        slice_thread.start_ns,
        slice_thread.end_ns,
        slice_thread.time_ns
    from slice_thread
    inner join tree_phase on slice_thread.home_id = tree_phase.home_id
    where slice_thread.track_id is distinct from tree_phase.track_id
)

select
    node_key as key,
    track_id,
    start_ns,
    end_ns,
    time_ns
from phase_thread
union all
select
    step_key,
    track_id,
    min(start_ns),
    max(end_ns),
    sum(time_ns)::bigint
from phase_thread
group by step_key, track_id
