-- How many launches wait on each stream, over time.
--
-- A launch is in the queue from the start of the call to the start of its first work on the stream, so the length says
-- how far the host is ahead. A graph launch counts once. Work whose launching call is not in the trace is left out.
-- There is one row per change; times without a row before the first or after the last change are unknown.
--
-- :param rank BIGINT = NULL       only this rank
-- :param device BIGINT = NULL     only this device
-- :param stream BIGINT = NULL     only this stream
-- :param step BIGINT = NULL       only stretches that begin while this step runs on the CPU
-- :param phase PHASE = NULL
--                                 only stretches that begin while the main thread is in this phase
-- :reads queue_change
-- :column rank BIGINT             process rank
-- :column device BIGINT           device number; -1 when the events name none
-- :column stream BIGINT           stream; -1 when the events name none
-- :column start_ns BIGINT         when the length changes
-- :column end_ns BIGINT           when it changes again; its start in the last row of a stream
-- :column queue_length BIGINT     launches in the queue in between
-- :column launch_id BIGINT        the launching call that entered the queue; NULL when none did
-- :column started_id BIGINT       the GPU event that left it; NULL when none did
with change as (
    select
        *,
        lead(start_ns) over (partition by rank, device, stream order by start_ns) as until_ns
    from queue_change
    where
        change != 0
        and is_asked($rank, rank)
        and is_asked($device, device)
        and is_asked($stream, stream)
)

select
    rank,
    device,
    stream,
    start_ns,
    coalesce(until_ns, start_ns) as end_ns,
    queue_length,
    launch_id,
    started_id
from change
where is_asked($step, step) and is_asked($phase, phase)
order by rank, device, stream, start_ns
