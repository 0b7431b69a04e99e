-- The gradient scaler waits for the GPU in each step, to read whether a gradient is infinite.
--
-- Condition: the scaler reads its flag back before the optimizer (`scaler_wait`), and waits for the GPU. Bound: the
-- call no longer waits. Source: torch.amp, "Gradient Scaling" (bfloat16 has the range of FP32 and needs no scaler);
-- torch/amp/grad_scaler.py, `step`: a fused optimizer takes the flag on the GPU (`_step_supports_amp_scaling`), without
-- a read-back.
--
-- :reads gpu_wait, scaler_wait, cpu_event
-- :only_with cpu_event where name = 'aten::_amp_foreach_non_finite_check_and_unscale_'
-- :finding waits of the gradient scaler for the GPU, in {name}
-- :remedy Train in bfloat16, which needs no GradScaler, or pass fused=True to the optimizer, which then checks the
--     gradients on the GPU.
select
    gpu_wait.event_id,
    'wait' as effect,
    gpu_wait.track_id,
    gpu_wait.start_ns,
    gpu_wait.end_ns,
    gpu_wait.waited_ns as saved_ns,
    op.name
from scaler_wait
inner join gpu_wait on scaler_wait.rank = gpu_wait.rank and scaler_wait.event_id = gpu_wait.event_id
inner join cpu_event as call on gpu_wait.rank = call.rank and gpu_wait.event_id = call.event_id
inner join cpu_event as op on call.rank = op.rank and call.op_id = op.event_id
where gpu_wait.rank = $rank and call.step = $step and gpu_wait.waited_ns > 0
order by gpu_wait.event_id
