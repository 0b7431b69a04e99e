-- A softmax over a dimension other than the last, with elements far apart in memory.
--
-- Condition: PyTorch's kernels for this case. Bound: the input is read and the output written once, at the memory
-- bandwidth. Without recorded shapes or for an unknown GPU, the bound is no time at all. Source: PyTorch,
-- aten/src/ATen/native/cuda/SoftMax.cu, which chooses `cunn_SpatialSoftMax` if elements follow the dimension.
--
-- :reads gpu_event, gpu_model, op
-- :only_with gpu_event where contains(name, 'cunn_SpatialSoftMax')
-- :finding softmaxes over a dimension that is not the last
-- :remedy Transpose the input first, so that the softmax (or cross entropy) is over its last dimension.
select
    gpu_event.event_id,
    'work' as effect,
    gpu_event.track_id,
    gpu_event.start_ns,
    gpu_event.end_ns,
    floor(greatest(0, gpu_event.dur_ns - coalesce(
        2 * list_product(try_cast(op.input_dims -> 0 as bigint[]))
        * bytes_of_dtype(op.input_types ->> 0)
        * 1e9 / gpu_model.memory_bytes_per_s,
        0
    )))::bigint as saved_ns,
    gpu_event.short_name as name
from gpu_event
left join op on gpu_event.rank = op.rank and gpu_event.op_id = op.event_id
left join gpu_model on gpu_event.rank = gpu_model.rank and gpu_event.device = gpu_model.device_id
where gpu_event.rank = $rank and gpu_event.step = $step and contains(gpu_event.name, 'cunn_SpatialSoftMax')
order by gpu_event.event_id
