-- Number of launches waiting on each stream, over time.
--
-- A launch is in the queue from the start of the call to the start of its first work on the stream, so the length shows
-- how far the host is ahead. A graph launch counts once. Work without a launching call in the trace is left out. Each
-- row is a change of the length. The length before the first and after the last change is unknown.
--
-- :param rank BIGINT = NULL       only this rank
-- :param device BIGINT = NULL     only this device
-- :param stream BIGINT = NULL     only this stream
-- :param step BIGINT = NULL       only intervals starting while this step runs on the CPU
-- :param phase PHASE = NULL       only intervals starting while the main thread is in this phase
-- :reads queue_change
-- :column rank RANK
-- :column device DEVICE           -1 without a device
-- :column stream BIGINT           stream; -1 if the events have no stream
-- :column start_ns BIGINT         time of the change
-- :column end_ns BIGINT           time of the next change; equal to `start_ns` in the last row of a stream
-- :column queue_length BIGINT     launches in the queue between the two changes
-- :column launch_id BIGINT        launching call entering the queue; NULL if there is none
-- :column started_id BIGINT       GPU event leaving the queue; NULL if there is none

-- one row per change of a queue, with the time of the next change
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
