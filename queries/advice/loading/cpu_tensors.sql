-- Arithmetic on CPU tensors, in the middle of GPU work.
--
-- Condition: outermost ops that compute without calls of the GPU's runtime (`cpu_tensor` in `host_activity`). Data
-- loading is excluded, as is the optimizer, which counts its steps in CPU tensors. Bound: the ops take no time, because
-- on the GPU they would take a few microseconds. Source: derived.
--
-- :reads host_activity, cpu_event, gpu_event
-- :finding ops that compute on CPU tensors
-- :remedy Move the tensors to the GPU before computing with them, or make them there (device="cuda").
select
    arg_min(cpu_event.event_id, (cpu_event.depth, cpu_event.event_id)) as event_id,
    'host' as effect,
    host_activity.track_id,
    host_activity.start_ns,
    host_activity.end_ns,
    host_activity.end_ns - host_activity.start_ns as saved_ns,
    arg_min(cpu_event.name, (cpu_event.depth, cpu_event.event_id)) as name
from host_activity
inner join cpu_event
    on
        host_activity.rank = cpu_event.rank
        and host_activity.track_id = cpu_event.track_id
        and host_activity.start_ns = cpu_event.start_ns
        and cpu_event.category = 'cpu_op'
where
    host_activity.rank = $rank
    and host_activity.step = $step
    and host_activity.kind = 'cpu_tensor'
    and host_activity.phase is distinct from 'optimizer'
    and exists (select 1 from gpu_event where gpu_event.rank = $rank)
group by host_activity.track_id, host_activity.start_ns, host_activity.end_ns
order by event_id
