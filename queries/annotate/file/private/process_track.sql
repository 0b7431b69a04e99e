-- The process of each thread or stream, as far as the file shows it.
--
-- Tools that merge traces put the rank before the process id (SGLang's ProfileMerger: `[TP00] 4100`, and `[TP00] 0` for
-- GPU 0). The label then identifies the process. Without labels, each process id with CPU events is a process. GPU
-- streams then have no process here, because their process ids are GPU numbers (`event_process`).
--
-- :reads event, track
-- :column track_id BIGINT        thread or stream
-- :column pid VARCHAR            process id in the file
-- :column tid VARCHAR            thread id in the file
-- :column process VARCHAR        label or id of the process; NULL if the file does not show it
-- :column is_labelled BOOLEAN    the process has a label
-- :column host_count BIGINT      CPU events
-- :column op_count BIGINT        ops, annotations and python functions among the CPU events
-- :column launch_count BIGINT    calls that launch GPU work
-- :column gpu_count BIGINT       GPU work
-- :column training_count BIGINT  marks of training steps, optimizers and backward
-- :column event_count BIGINT     events
-- :column first_id BIGINT        first event
with activity as (
    select
        track_id,
        count(*) filter (
            where category in ('cpu_op', 'user_annotation', 'python_function', 'cuda_runtime', 'cuda_driver')
        ) as host_count,
        count(*) filter (where category in ('cpu_op', 'user_annotation', 'python_function')) as op_count,
        count(*) filter (where category in ('cuda_runtime', 'cuda_driver') and correlation is not null)
            as launch_count,
        count(*) filter (where category in ('kernel', 'gpu_memcpy', 'gpu_memset')) as gpu_count,
        count(*) filter (
            where category = 'user_annotation'
            and (is_step_mark(name) or is_optimizer_mark(name))
            or category = 'cpu_op' and is_engine_mark(name)
        ) as training_count,
        count(*) as event_count,
        min(event_id) as first_id
    from event
    where track_id is not null
    group by track_id
),

labelled_track as (
    select
        track.track_id,
        track.pid,
        track.tid,
        nullif(regexp_extract(track.pid, '^\[([^\]]+)\]', 1), '') as label,
        activity.* exclude (track_id)
    from track
    inner join activity on track.track_id = activity.track_id
)

select
    track_id,
    pid,
    tid,
    case
        when label is not null then label
        when host_count > 0 then pid
    end as process,
    label is not null as is_labelled,
    host_count,
    op_count,
    launch_count,
    gpu_count,
    training_count,
    event_count,
    first_id
from labelled_track
order by track_id
