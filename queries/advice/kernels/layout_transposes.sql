-- Kernels that only change the memory layout of tensors for a convolution, and back.
--
-- Condition: cuDNN's nchwToNhwc and nhwcToNchw, MIOpen's batched_transpose. Bound: no transposes run, if all tensors of
-- the convolutions are in channels-last memory. Source: PyTorch performance tuning guide, "Use channels_last memory
-- format for computer vision models"; NVIDIA, "Convolutional layers user's guide", tensor layouts.
--
-- :reads gpu_event, label, event
-- :finding kernels that only change the memory layout for convolutions
-- :remedy Keep model and input in channels-last memory: model.to(memory_format=torch.channels_last), and the input
--     likewise.
-- :scenario channels_last
select
    gpu_event.event_id,
    'work' as effect,
    event.track_id,
    gpu_event.start_ns,
    gpu_event.end_ns,
    gpu_event.dur_ns as saved_ns,
    gpu_event.short_name as name
from gpu_event
inner join label on gpu_event.rank = label.rank and gpu_event.event_id = label.event_id
inner join event on gpu_event.rank = event.rank and gpu_event.event_id = event.event_id
where
    gpu_event.rank = $rank
    and label.step = $step
    and gpu_event.category = 'kernel'
    and is_layout_kernel(gpu_event.name)
order by gpu_event.event_id
