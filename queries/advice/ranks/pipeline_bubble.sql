-- Sends and receives of a pipeline, while a stage waits for another stage.
--
-- Condition: sends and receives (`collective_use`): kernels, and on the CPU the times in which the loop waits for them.
-- Bound: sends and receives take no time. More micro-batches approach the bound, but with p stages and m micro-batches,
-- (p - 1) / (m + p - 1) of a step remains (`pipeline_bubbles`). Source: Huang et al., "GPipe", NeurIPS 2019, section 2;
-- Narayanan et al., "Efficient large-scale language model training on GPU clusters", SC 2021, section 2.2.
--
-- :reads gpu_event, collective_use, thread_wait
-- :finding waits for another pipeline stage
-- :remedy Use more micro-batches in each step, an interleaved or zero-bubble schedule, or stages that take equally
--     long.
select
    gpu_event.event_id,
    'work' as effect,
    gpu_event.track_id,
    gpu_event.start_ns,
    gpu_event.end_ns,
    gpu_event.dur_ns as saved_ns,
    gpu_event.short_name as name
from gpu_event
inner join collective_use on gpu_event.rank = collective_use.rank and gpu_event.event_id = collective_use.event_id
where gpu_event.rank = $rank and gpu_event.step = $step and collective_use.use = 'stages'
union all
select
    thread_wait.event_id,
    'host',
    thread_wait.track_id,
    thread_wait.start_ns,
    thread_wait.end_ns,
    thread_wait.end_ns - thread_wait.start_ns,
    collective_use.name
from thread_wait
inner join collective_use on thread_wait.rank = collective_use.rank and thread_wait.event_id = collective_use.event_id
where thread_wait.rank = $rank and collective_use.step = $step and collective_use.use = 'stages'
order by event_id, start_ns
