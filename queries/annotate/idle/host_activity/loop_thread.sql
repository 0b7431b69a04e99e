-- Threads that launch GPU work or have phases, and whether the recorder shows what they do between events.
--
-- A recorder of ops or of python frames shows each op or frame of the process: a thread outside of them runs python. A
-- recorder of runtime calls alone, or of chosen spans (`is_host_of_spans`), does not: the time has no host events, and
-- its activity is not known.
--
-- :reads event, nesting, launch, phase_span, main_track, track
-- :column track_id BIGINT     the thread
-- :column is_recorded BOOLEAN the thread's process has python frames, or ops or annotations of a recorder of all ops
with host as (
    select distinct nesting.track_id
    from launch
    inner join nesting on coalesce(launch.runtime_id, launch.op_id) = nesting.event_id
    union
    select track_id from main_track
    union
    select track_id from phase_span
),

-- Tracks with ops, annotations or frames.
code_track as (
    select distinct
        track_id,
        category
    from event
    where category in ('cpu_op', 'user_annotation', 'python_function')
),

-- Processes with frames, or with ops or annotations of a recorder that shows more than chosen spans.
recorded_process as (
    select distinct
        track.pid,
        true as is_recorded
    from code_track
    inner join track on code_track.track_id = track.track_id
    where code_track.category = 'python_function' or not coalesce(is_host_of_spans(track.process_name), false)
)

select
    host.track_id,
    coalesce(recorded_process.is_recorded, false) as is_recorded
from host
left join track on host.track_id = track.track_id
left join recorded_process on track.pid is not distinct from recorded_process.pid
