-- Copies of tensors within GPU memory.
--
-- Condition: copies from device to device, PyTorch's copy kernels (including casts), and concatenation, except in code
-- compiled by torch.compile, which already fuses copies where possible. Bound: the copies take no time, if each op gets
-- its input in the required layout, type and place. Source: PyTorch performance tuning guide, "Fuse operations", for
-- casts. For other copies, derived: each copy reads and writes a whole tensor and computes nothing.
--
-- :reads gpu_event
-- :only_with gpu_event
-- :finding copies within the memory of the GPU
-- :remedy Avoid contiguous(), to(dtype), repeat() and cat() between ops: keep one layout and one type, and write into
--     parts of one tensor that is made before. torch.compile fuses casts and many copies with the ops beside them.
select
    event_id,
    'work' as effect,
    track_id,
    start_ns,
    end_ns,
    dur_ns as saved_ns,
    coalesce(op, short_name) as name
from gpu_event
where
    rank = $rank
    and step = $step
    and not coalesce(is_compiled, false)
    and is_move_on_device(short_name)
order by event_id
