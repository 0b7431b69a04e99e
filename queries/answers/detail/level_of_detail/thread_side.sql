-- A row is a step or phase and a thread on which it runs; all other nodes run on one.
--
-- :reads tree_phase, tree_slice
-- :column key UBIGINT      the node
-- :column track_id BIGINT  the thread
-- :column start_ns BIGINT  its start there
-- :column end_ns BIGINT    its end there
-- :column time_ns BIGINT   its time there: on the loop's thread that of the phases, on others that of their slices
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
