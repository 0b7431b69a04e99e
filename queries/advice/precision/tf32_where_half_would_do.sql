-- Matrix products and convolutions in TF32, which would be faster in half precision.
--
-- Condition: kernels with a name that shows TF32. If most products already run in half precision, the rule does not
-- apply: the few others are on purpose. Bound: the ratio of the two peaks. Source: PyTorch performance tuning guide,
-- "Use mixed precision and AMP"; Micikevicius et al., "Mixed precision training", ICLR 2018.
--
-- :reads gpu_event, device_peak
-- :only_with gpu_event where precision = 'tf32'
-- :only_with device_peak
-- :finding matrix products and convolutions in TF32
-- :remedy Let them run in half precision: torch.autocast("cuda", dtype=torch.bfloat16).
-- :scenario amp
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
        max(flop_per_s) filter (where precision = 'tf32') as tf32,
        max(flop_per_s) filter (where precision in ('bf16', 'fp16')) as half
    from device_peak
    where unit = 'matrix'
    group by rank, device_id
)

select
    product.event_id,
    'work' as effect,
    product.track_id,
    product.start_ns,
    product.end_ns,
    floor(product.dur_ns * (1 - peak.tf32 / peak.half))::bigint as saved_ns,
    product.short_name as name
from product
inner join peak on product.rank = peak.rank and product.device = peak.device_id
where
    product.precision = 'tf32'
    and peak.half > peak.tf32
    and 2 * coalesce(product.half_ns, 0) < product.all_ns
order by product.event_id
