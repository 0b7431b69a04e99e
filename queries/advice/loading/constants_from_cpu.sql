-- Small tensors that the model makes on the CPU and copies to the GPU in each step.
--
-- Condition: copies to the GPU of at most 4 KiB, launched in forward, loss, backward, clipping or the optimizer. Bound:
-- neither the copy nor the ops that do nothing but copy take time, and the call no longer waits. Source: PyTorch
-- performance tuning guide, "Create tensors directly on the target device"; `ExtraCUDACopyPattern` in
-- torch/profiler/_pattern_matcher.py. 4 KiB is a page of host memory: a transfer of a batch takes more.
--
-- :reads gpu_work, gpu_op, event, nesting, gpu_wait
-- :only_with gpu_work where category = 'gpu_memcpy'
-- :what small tensors that are made on the CPU and copied to the GPU
-- :do Make constants once and keep them on the GPU (register_buffer), and new tensors where they are used
--     (device=x.device).
with copied as (
    select gpu_work.*
    from gpu_work
    inner join gpu_op on gpu_work.rank = gpu_op.rank and gpu_work.event_id = gpu_op.event_id
    where
        gpu_work.rank = $rank
        and gpu_work.step = $step
        and gpu_work.phase in ('forward', 'loss', 'backward', 'clipping', 'optimizer')
        and gpu_work.category = 'gpu_memcpy'
        and regexp_matches(gpu_work.name, 'HtoD|HostToDevice|Host -> Device')
        and gpu_op.bytes <= 4096
),

-- Ops that do nothing but copy, of those inside each other the outermost.
outermost as (
    select
        nesting.event_id,
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns,
        event.name
    from copied
    inner join nesting as call on copied.rank = call.rank and copied.runtime_id = call.event_id
    inner join nesting
        on
            call.rank = nesting.rank
            and call.track_id = nesting.track_id
            and call.start_ns >= nesting.start_ns
            and call.end_ns <= nesting.end_ns
            and call.depth > nesting.depth
    inner join event on nesting.rank = event.rank and nesting.event_id = event.event_id
    where event.category = 'cpu_op' and event.name in ('aten::to', 'aten::_to_copy', 'aten::copy_')
    qualify row_number() over (partition by copied.event_id order by nesting.depth) = 1
)

select
    event_id,
    'work' as effect,
    track_id,
    start_ns,
    end_ns,
    dur_ns as saved_ns,
    coalesce(op, short_name) as name
from copied
union all
select
    outermost.event_id,
    'host' as effect,
    outermost.track_id,
    outermost.start_ns,
    outermost.end_ns,
    outermost.end_ns - outermost.start_ns as saved_ns,
    outermost.name
from outermost
union all
select
    gpu_wait.event_id,
    'wait' as effect,
    gpu_wait.track_id,
    gpu_wait.start_ns,
    gpu_wait.end_ns,
    gpu_wait.waited_ns as saved_ns,
    copied.op as name
from copied
inner join gpu_wait on copied.rank = gpu_wait.rank and copied.runtime_id = gpu_wait.event_id
where gpu_wait.waited_ns > 0
order by event_id, effect
