-- Small tensors that the model creates on the CPU and copies to the GPU in each step.
--
-- Condition: copies of at most 4 KiB to the GPU, launched in forward, loss, backward, clipping or the optimizer. Bound:
-- the copies and the ops that only copy take no time, and the calls no longer wait. Source: PyTorch performance tuning
-- guide, "Create tensors directly on the target device"; `ExtraCUDACopyPattern` in torch/profiler/_pattern_matcher.py.
-- 4 KiB is a page of host memory: a batch is larger.
--
-- :reads gpu_work, gpu_op, event, nesting, gpu_wait
-- :only_with gpu_work where category = 'gpu_memcpy'
-- :finding small tensors that are made on the CPU and copied to the GPU
-- :remedy Make constants once and keep them on the GPU (register_buffer), and new tensors where they are used
--     (device=x.device).
with small_copy as (
    -- One row per small copy to the GPU.
    select gpu_work.*
    from gpu_work
    inner join gpu_op on gpu_work.rank = gpu_op.rank and gpu_work.event_id = gpu_op.event_id
    where
        gpu_work.rank = $rank
        and gpu_work.step = $step
        and gpu_work.phase in ('forward', 'loss', 'backward', 'clipping', 'optimizer')
        and gpu_work.category = 'gpu_memcpy'
        and is_copy_to_device(gpu_work.name)
        and gpu_op.bytes <= 4096
),

-- One row per outermost op that only copies.
outermost_op as (
    select
        nesting.event_id,
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns,
        event.name
    from small_copy
    inner join nesting as call on small_copy.rank = call.rank and small_copy.runtime_id = call.event_id
    inner join nesting
        on
            call.rank = nesting.rank
            and call.track_id = nesting.track_id
            and call.start_ns >= nesting.start_ns
            and call.end_ns <= nesting.end_ns
            and call.depth > nesting.depth
    inner join event on nesting.rank = event.rank and nesting.event_id = event.event_id
    where event.category = 'cpu_op' and is_copy_op(event.name)
    qualify row_number() over (partition by small_copy.event_id order by nesting.depth) = 1
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
