-- One row per GPU, unit and precision: how many operations a second it can do at most, as its vendor says.
--
-- Peaks are dense (without sparsity), at boost clock; those of half precision add up in FP32, as PyTorch does, and a
-- multiply-add is two operations. Of a part of a GPU they are as much less as it has fewer multiprocessors. What the
-- vendor does not say, or the unit cannot do, has no row. The bandwidth of memory is `gpu_model.memory_bytes_per_s`.
--
-- :reads gpu_match, gpu_model
-- :only_with gpu_match
-- :column device_id BIGINT     device number, as in `gpu_work.device`
-- :column unit VARCHAR         matrix (tensor cores, matrix cores) or vector
-- :column precision VARCHAR    fp64, fp32, tf32, fp16, bf16, fp8, fp4 or int8
-- :column flop_per_s DOUBLE    floating-point operations a second, of int8 integer ones
with listed as (
    select
        device_id,
        unnest(peaks) as peak
    from gpu_match
)

select
    listed.device_id,
    listed.peak.unit,
    listed.peak.precision,
    round(gpu_model.scale * 1e12 * listed.peak.tflop_per_s) as flop_per_s
from listed
inner join gpu_model on listed.device_id = gpu_model.device_id
where listed.peak.tflop_per_s is not null
order by listed.device_id, listed.peak.unit, listed.peak.precision
