-- Kernels that only change the memory layout of tensors for a convolution, and back.
--
-- Condition: cuDNN's nchwToNhwc and nhwcToNchw, MIOpen's batched_transpose. Bound: no transposes run, if all tensors of
-- the convolutions are in channels-last memory. Source: PyTorch performance tuning guide, "Use channels_last memory
-- format for computer vision models"; NVIDIA, "Convolutional layers user's guide", tensor layouts.
--
-- :reads gpu_event
-- :finding kernels that only change the memory layout for convolutions
-- :remedy Keep model and input in channels-last memory: model.to(memory_format=torch.channels_last), and the input
--     likewise.
-- :scenario channels_last
select
    event_id,
    'work' as effect,
    track_id,
    start_ns,
    end_ns,
    dur_ns as saved_ns,
    short_name as name
from gpu_event
where
    rank = $rank
    and step = $step
    and category = 'kernel'
    and is_layout_kernel(name)
order by event_id
