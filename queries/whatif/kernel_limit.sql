-- Least time of each kernel whose op has known work, as it runs now and with products in another precision.
--
-- The least time is the longest of the times for products, other arithmetic and bytes at the GPU's peaks, as in
-- `kernel_roofline`. In half precision, FP32 operands take half the bytes.
--
-- :param rank BIGINT        the process rank
-- :param start_ns BIGINT    start of the first step on the CPU
-- :param end_ns BIGINT      end of the last step on the CPU
-- :reads gpu_event, op_claim, op_work, device_peak, gpu_model
-- :column event_id BIGINT   the kernel
-- :column dtype VARCHAR     operand type: fp32, bf16, int64, …; NULL if unknown
-- :column bytes BIGINT      least bytes read and written
-- :column memory_ns DOUBLE  least time for the bytes
-- :column now_ns DOUBLE     least time as the kernel runs now
-- :column half_ns DOUBLE    least time in half precision; NULL if the operands are not FP32, or for products without
--                           such a unit
-- :column tf32_ns DOUBLE    least time with products in TF32; NULL if the operands are not FP32, without products, or
--                           without such a unit
with peak as (
    select
        device_id,
        map_from_entries(list({'key': unit || ' ' || "precision", 'value': flop_per_s})) as flop_per_s
    from device_peak
    where rank = $rank
    group by device_id
),

kernel_work as (
    select
        gpu_event.event_id,
        op_work.dtype,
        op_claim.bytes,
        op_claim.matrix_flop,
        peak.flop_per_s,
        coalesce(op_claim.matrix_flop > 0, false) as has_products,
        1e9 * op_claim.bytes / gpu_model.memory_bytes_per_s as memory_ns,
        coalesce(1e9 * op_claim.vector_flop / peak.flop_per_s['vector fp32'], 0) as vector_ns,
        case
            when gpu_event.unit = 'matrix'
                then coalesce(
                    peak.flop_per_s['matrix ' || coalesce(gpu_event.precision, op_work.dtype)],
                    if(op_work.dtype = 'fp32', peak.flop_per_s['matrix tf32'], null)
                )
            else peak.flop_per_s['vector ' || if(op_work.dtype = 'fp64', 'fp64', 'fp32')]
        end as now_per_s,
        coalesce(peak.flop_per_s['matrix fp16'], peak.flop_per_s['matrix bf16']) as half_per_s,
        peak.flop_per_s['matrix tf32'] as tf32_per_s
    from gpu_event
    inner join op_claim on gpu_event.rank = op_claim.rank and gpu_event.event_id = op_claim.event_id
    inner join op_work on op_claim.rank = op_work.rank and op_claim.work_id = op_work.event_id
    inner join gpu_model on gpu_event.rank = gpu_model.rank and gpu_event.device = gpu_model.device_id
    inner join peak on gpu_event.device = peak.device_id
    where
        gpu_event.rank = $rank
        and gpu_event.class = 'computation'
        and if(gpu_event.runtime_id is null, gpu_event.start_ns, gpu_event.call_start_ns) >= $start_ns
        and if(gpu_event.runtime_id is null, gpu_event.start_ns, gpu_event.call_start_ns) < $end_ns
)

select
    event_id,
    dtype,
    bytes,
    memory_ns,
    greatest(memory_ns, vector_ns, if(has_products, 1e9 * matrix_flop / now_per_s, 0)) as now_ns,
    case
        when dtype = 'fp32' and (half_per_s is not null or not has_products)
            then greatest(memory_ns / 2, vector_ns, if(has_products, 1e9 * matrix_flop / half_per_s, 0))
    end as half_ns,
    case
        when dtype = 'fp32' and has_products and tf32_per_s is not null
            then greatest(memory_ns, vector_ns, 1e9 * matrix_flop / tf32_per_s)
    end as tf32_ns
from kernel_work
where memory_ns is not null and (not has_products or now_per_s is not null)
order by event_id
