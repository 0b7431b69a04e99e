-- Small tensors that the model creates on the CPU and copies to the GPU in each step.
--
-- Condition: copies of at most 4 KiB to the GPU, launched in forward, loss, backward, clipping or the optimizer. Bound:
-- the copies and the ops that only copy take no time, and the calls no longer wait. Source: PyTorch performance tuning
-- guide, "Create tensors directly on the target device"; `ExtraCUDACopyPattern` in torch/profiler/_pattern_matcher.py.
-- 4 KiB is a page of host memory: a batch is larger.
--
-- :reads gpu_event, cpu_event, nesting, gpu_wait
-- :only_with gpu_event where category = 'gpu_memcpy'
-- :finding small tensors that are made on the CPU and copied to the GPU
-- :remedy Make constants once and keep them on the GPU (register_buffer), and new tensors where they are used
--     (device=x.device).
with small_copy as (
    -- One row per small copy to the GPU.
    select *
    from gpu_event
    where
        rank = $rank
        and step = $step
        and phase in ('forward', 'loss', 'backward', 'clipping', 'optimizer')
        and category = 'gpu_memcpy'
        and is_copy_to_device(name)
        and bytes <= 4096
),

-- One row per outermost op that only copies.
outermost_op as (
    select
        op.event_id,
        op.track_id,
        op.start_ns,
        op.end_ns,
        op.name
    from small_copy
    inner join nesting as call on small_copy.rank = call.rank and small_copy.runtime_id = call.event_id
    inner join cpu_event as op
        on
            call.rank = op.rank
            and call.track_id = op.track_id
            and call.start_ns >= op.start_ns
            and call.end_ns <= op.end_ns
            and call.depth > op.depth
    where op.category = 'cpu_op' and is_copy_op(op.name)
    qualify row_number() over (partition by small_copy.event_id order by op.depth) = 1
)

select
    event_id,
    'work' as effect,
    track_id,
    start_ns,
    end_ns,
    dur_ns as saved_ns,
    coalesce(op, short_name) as name
from small_copy
union all
select
    outermost_op.event_id,
    'host' as effect,
    outermost_op.track_id,
    outermost_op.start_ns,
    outermost_op.end_ns,
    outermost_op.end_ns - outermost_op.start_ns as saved_ns,
    outermost_op.name
from outermost_op
union all
select
    gpu_wait.event_id,
    'wait' as effect,
    gpu_wait.track_id,
    gpu_wait.start_ns,
    gpu_wait.end_ns,
    gpu_wait.waited_ns as saved_ns,
    small_copy.op as name
from small_copy
inner join gpu_wait on small_copy.rank = gpu_wait.rank and small_copy.runtime_id = gpu_wait.event_id
where gpu_wait.waited_ns > 0
order by event_id, effect
