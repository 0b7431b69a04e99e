-- Processes of a file, and whether each process works: launches GPU work, has GPU work, or trains.
--
-- Process ids can be damaged: the events of one thread then have several process ids. Some writers use a separate
-- process id for runtime calls. A process without a label therefore counts as working in two cases only. Either it has
-- ops, and no other process has a thread with the same number; or another process has the same correlation ids or
-- steps, like ranks of a job. A process with far fewer events than the largest process does not count as working.
--
-- :reads event, process_track
-- :column process VARCHAR     label or id
-- :column first_id BIGINT     first event
-- :column is_working BOOLEAN  the process works
with process as (
    select
        process,
        bool_or(is_labelled) as is_labelled,
        min(first_id) as first_id,
        sum(event_count) as event_count,
        sum(op_count) as op_count,
        sum(launch_count) + sum(gpu_count) + sum(training_count) as work_count
    from process_track
    where process is not null
    group by process
),

thread as (
    select distinct
        process,
        tid
    from process_track
    where process is not null and host_count > 0
),

shared_thread as (
    select thread.process
    from thread
    inner join thread as other on thread.tid = other.tid and thread.process != other.process
    group by thread.process
),

-- Identifying numbers of a process: correlation ids of launch calls, and names of steps.
process_number as (
    select distinct
        process_track.process,
        case when event.category = 'user_annotation' then event.name else event.correlation::varchar end as number
    from event
    inner join process_track on event.track_id = process_track.track_id
    where
        process_track.process is not null
        and (
            (event.category in ('cuda_runtime', 'cuda_driver') and event.correlation is not null)
            or (event.category = 'user_annotation' and is_step_mark(event.name))
        )
),

twin as (
    select
        process,
        2 * count(*) filter (where process_count > 1) >= count(*) as is_like_another
    from (
        select
            process,
            count(*) over (partition by number) as process_count
        from process_number
    )
    group by process
)

select
    process.process,
    process.first_id,
    process.work_count > 0
    and 100 * process.event_count >= least_process_pct() * max(process.event_count) over ()
    and (
        process.is_labelled
        or (process.op_count > 0 and shared_thread.process is null)
        or coalesce(twin.is_like_another, false)
    ) as is_working
from process
left join shared_thread on process.process = shared_thread.process
left join twin on process.process = twin.process
order by process.first_id
