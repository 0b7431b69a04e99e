-- Matrix products and convolutions in FP32 on a GPU on which only half precision makes them faster.
--
-- Condition: kernels whose name says FP32, on GPUs without TF32, or whose TF32 is no faster than FP32, and that have
-- matrix units for half precision. Not where most products run in half precision already: then these few are on
-- purpose. Bound: the ratio of the two peaks. Source: PyTorch performance tuning guide, "Use mixed precision and AMP";
-- Micikevicius et al., "Mixed precision training", ICLR 2018.
--
-- :reads gpu_work, gpu_peak
-- :what matrix products in FP32
-- :do Let them run in half precision: torch.autocast("cuda", dtype=torch.bfloat16), or torch.float16 and a GradScaler
--     on GPUs without bfloat16.
with product as (
    select
        gpu_work.*,
        sum(gpu_work.dur_ns) filter (where gpu_work.precision in ('fp16', 'bf16', 'fp8', 'fp4')) over () as half_ns,
        sum(gpu_work.dur_ns) over () as all_ns
    from gpu_work
    where gpu_work.rank = $rank and gpu_work.step = $step and gpu_work.unit is not null
),

peak as (
    select
        *,
        greatest(fp32_vector_tflop_per_s, coalesce(fp32_matrix_tflop_per_s, 0)) as fp32_tflop_per_s
    from gpu_peak
)

select
    product.event_id,
    'work' as effect,
    product.track_id,
    product.start_ns,
    product.end_ns,
    floor(
        product.dur_ns * (
            1 - case product.unit when 'vector' then peak.fp32_vector_tflop_per_s else peak.fp32_tflop_per_s end
            / peak.half_matrix_tflop_per_s
        )
    )::bigint as saved_ns,
    product.short_name as name
from product
inner join peak on product.rank = peak.rank and product.device = peak.device
where
    product.precision = 'fp32'
    and not regexp_matches(product.name, 'gemv|dot_kernel')
    and (
        starts_with(peak.model, 'Instinct')
        or coalesce(peak.tf32_matrix_tflop_per_s, 0) <= peak.fp32_vector_tflop_per_s
    )
    and peak.half_matrix_tflop_per_s > peak.fp32_tflop_per_s
    and 2 * coalesce(product.half_ns, 0) < product.all_ns
order by product.event_id
