-- Launches that wait because a thousand earlier launches of their stream are pending.
--
-- Condition: launch calls with over 1000 launches of their stream pending (`full_queue` in `gpu_wait`). Bound: the
-- calls no longer wait. A constantly busy GPU gains nothing. Source: CUDA programming guide, "Asynchronous concurrent
-- execution"; the limit of 1024 pending launches is known from measurement.
--
-- :reads gpu_wait, cpu_event
-- :only_with gpu_wait where kind = 'full_queue'
-- :finding launches that wait as a thousand others are pending
-- :remedy Launch fewer, longer kernels (torch.compile, a larger batch), or a CUDA graph; load and log on another
--     thread, so
--     that a full queue does not hold them up.
select
    gpu_wait.event_id,
    'wait' as effect,
    gpu_wait.track_id,
    gpu_wait.start_ns,
    gpu_wait.end_ns,
    gpu_wait.waited_ns as saved_ns,
    cpu_event.name
from gpu_wait
inner join cpu_event on gpu_wait.rank = cpu_event.rank and gpu_wait.event_id = cpu_event.event_id
where
    gpu_wait.rank = $rank
    and cpu_event.step = $step
    and gpu_wait.kind = 'full_queue'
    and gpu_wait.waited_ns > 0
order by gpu_wait.event_id
