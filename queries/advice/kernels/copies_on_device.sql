-- Copies of tensors within the memory of the GPU.
--
-- Condition: copies from device to device, PyTorch's copy kernels (which also cast), and concatenation; not in code
-- that torch.compile made, which has fused what it could. Bound: they take no time, if each op gets its input in the
-- layout, type and place it needs. Source: PyTorch performance tuning guide, "Fuse operations", for casts; else
-- derived: each such copy reads and writes all of a tensor and computes nothing.
--
-- :reads gpu_work
-- :only_with gpu_work
-- :what copies within the memory of the GPU
-- :do Avoid contiguous(), to(dtype), repeat() and cat() between ops: keep one layout and one type, and write into parts
--     of one tensor that is made before. torch.compile fuses casts and many copies with the ops beside them.
select
    event_id,
    'work' as effect,
    track_id,
    start_ns,
    end_ns,
    dur_ns as saved_ns,
    coalesce(op, short_name) as name
from gpu_work
where
    rank = $rank
    and step = $step
    and not coalesce(is_compiled, false)
    and regexp_matches(short_name, '^(elementwise \w*copy|CatArrayBatchedCopy|Memcpy DtoD|CopyDeviceToDevice)')
order by event_id
