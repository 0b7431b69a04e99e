-- Peak operations per second of each GPU, by unit and precision, according to the vendor.
--
-- Peaks are dense (without sparsity) and at boost clock. Half precision peaks accumulate in FP32, as in PyTorch, and a
-- multiply-add counts as two operations. The peaks of a partial GPU are scaled by the number of multiprocessors.
-- Unsupported precisions and precisions without a published peak have no row. Memory bandwidth is in
-- `gpu_model.memory_bytes_per_s`.
--
-- :reads gpu_match, gpu_model
-- :only_with gpu_match
-- :column device_id BIGINT     device number, as in `gpu_work.device`
-- :column unit VARCHAR         matrix (tensor cores, matrix cores) or vector
-- :column precision VARCHAR    fp64, fp32, tf32, fp16, bf16, fp8, fp4 or int8
-- :column flop_per_s DOUBLE    floating-point operations per second; integer operations for int8
with gpu_peak as (
    select
        device_id,
        unnest(peaks) as peak
    from gpu_match
)

select
    gpu_peak.device_id,
    gpu_peak.peak.unit,
    gpu_peak.peak.precision,
    round(gpu_model.scale * 1e12 * gpu_peak.peak.tflop_per_s) as flop_per_s
from gpu_peak
inner join gpu_model on gpu_peak.device_id = gpu_model.device_id
where gpu_peak.peak.tflop_per_s is not null
order by gpu_peak.device_id, gpu_peak.peak.unit, gpu_peak.peak.precision
