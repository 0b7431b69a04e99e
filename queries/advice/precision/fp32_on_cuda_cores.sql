-- Matrix products and convolutions in FP32 on CUDA cores, although the GPU has tensor cores for TF32.
--
-- Condition: kernels with a name that shows FP32 on vector units, on GPUs with a higher peak in TF32, except AMD's.
-- Products with one vector are excluded, because the limit is memory. If most products run in half precision, the rule
-- does not apply: the few others are on purpose. Bound: the ratio of the two peaks. Source: PyTorch, "Numerical
-- accuracy: TensorFloat-32 on Nvidia Ampere (and later) devices"; `FP32MatMulPattern` in
-- torch/profiler/_pattern_matcher.py.
--
-- :reads gpu_event, gpu_model, device_peak
-- :only_with gpu_event where unit = 'vector'
-- :only_with device_peak
-- :finding matrix products in FP32 on CUDA cores
-- :remedy Let them run in TF32 on tensor cores: torch.set_float32_matmul_precision("high"), and for convolutions
--     torch.backends.cudnn.allow_tf32 = True.
-- :scenario tf32
with product as (
    select
        *,
        sum(dur_ns) filter (where precision in ('fp16', 'bf16', 'fp8', 'fp4')) over () as half_ns,
        sum(dur_ns) over () as all_ns
    from gpu_event
    where rank = $rank and step = $step and unit is not null
),

peak as (
    select
        rank,
        device_id,
        max(flop_per_s) filter (where unit = 'vector' and precision = 'fp32') as fp32,
        max(flop_per_s) filter (where unit = 'matrix' and precision = 'tf32') as tf32
    from device_peak
    group by rank, device_id
)

select
    product.event_id,
    'work' as effect,
    product.track_id,
    product.start_ns,
    product.end_ns,
    floor(product.dur_ns * (1 - peak.fp32 / peak.tf32))::bigint as saved_ns,
    product.short_name as name
from product
inner join gpu_model on product.rank = gpu_model.rank and product.device = gpu_model.device_id
inner join peak on product.rank = peak.rank and product.device = peak.device_id
where
    product.unit = 'vector'
    and product.precision = 'fp32'
    and not is_vector_product(product.name)
    and gpu_model.vendor is distinct from 'AMD'
    and peak.tf32 > peak.fp32
    and 2 * coalesce(product.half_ns, 0) < product.all_ns
order by product.event_id
