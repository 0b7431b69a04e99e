-- Matrix products and convolutions in FP32 on a GPU on which only half precision makes them faster.
--
-- Condition: kernels with a name that shows FP32, except products with one vector, on GPUs with matrix units for half
-- precision. The GPU has no TF32, or its TF32 is no faster than FP32, or it is from AMD. If most products already run
-- in half precision, the rule does not apply: the few others are on purpose. Bound: the ratio of the two peaks. Source:
-- PyTorch performance tuning guide, "Use mixed precision and AMP"; Micikevicius et al., "Mixed precision training",
-- ICLR 2018.
--
-- :reads gpu_event, gpu_model, device_peak
-- :only_with gpu_event where precision = 'fp32'
-- :only_with device_peak
-- :finding matrix products in FP32
-- :remedy Let them run in half precision: torch.autocast("cuda", dtype=torch.bfloat16), or torch.float16 and a
--     GradScaler on GPUs without bfloat16.
-- :scenario amp
with product as (
    select
        *,
        sum(dur_ns) filter (where precision in ('fp16', 'bf16', 'fp8', 'fp4')) over () as half_ns,
        sum(dur_ns) over () as all_ns
    from gpu_event
    where rank = $rank and step = $step and unit is not null
),

-- One row per GPU, with the peaks in FP32, TF32 and half precision.
peak as (
    select
        rank,
        device_id,
        max(flop_per_s) filter (where precision = 'fp32') as fp32,
        max(flop_per_s) filter (where unit = 'vector' and precision = 'fp32') as fp32_vector,
        max(flop_per_s) filter (where precision = 'tf32') as tf32,
        max(flop_per_s) filter (where unit = 'matrix' and precision in ('bf16', 'fp16')) as half
    from device_peak
    group by rank, device_id
)

select
    product.event_id,
    'work' as effect,
    product.track_id,
    product.start_ns,
    product.end_ns,
    floor(
        product.dur_ns * (
            1 - case product.unit when 'vector' then peak.fp32_vector else peak.fp32 end / peak.half
        )
    )::bigint as saved_ns,
    product.short_name as name
from product
inner join gpu_model on product.rank = gpu_model.rank and product.device = gpu_model.device_id
inner join peak on product.rank = peak.rank and product.device = peak.device_id
where
    product.precision = 'fp32'
    and not is_vector_product(product.name)
    and (
        gpu_model.vendor = 'AMD'
        or coalesce(peak.tf32, 0) <= peak.fp32_vector
    )
    and peak.half > peak.fp32
    and 2 * coalesce(product.half_ns, 0) < product.all_ns
order by product.event_id
