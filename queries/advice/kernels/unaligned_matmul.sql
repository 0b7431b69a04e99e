-- Matrix products on tensor cores with rows not aligned to 16 bytes.
--
-- Condition: `aten::mm`, `addmm`, `bmm` and `baddbmm` on matrix units in TF32 or half precision. The rows (columns, if
-- transposed) of an operand or the result are not a multiple of 16 bytes long. Such rows are read and written in
-- smaller pieces, by older kernels. Shapes must be recorded; without strides, operands count as not transposed. Bound:
-- the time of the same product at the GPU's peak or memory bandwidth, whichever is longer. Source: NVIDIA, "Matrix
-- multiplication background user's guide", 2.2, tensor core requirements.
--
-- :reads gpu_event, gpu_model, device_peak, op
-- :only_with gpu_event where unit = 'matrix' and precision in ('tf32', 'bf16', 'fp16')
-- :only_with device_peak
-- :finding matrix products whose rows are no multiple of 16 bytes
-- :remedy Pad the dimensions of the operands to a multiple of 8 in half precision, of 4 in TF32: sequence length,
--     vocabulary or width of the layer.
with product as (
    -- One row per product on matrix units, with the shapes of the op.
    select
        gpu_event.*,
        op.input_dims,
        op.input_strides,
        if(adds_first_argument(gpu_event.op), 1, 0) as first,
        if(gpu_event.precision = 'tf32', 4, 2) as item_bytes
    from gpu_event
    inner join op on gpu_event.rank = op.rank and gpu_event.op_id = op.event_id
    where
        gpu_event.rank = $rank
        and gpu_event.step = $step
        and gpu_event.unit = 'matrix'
        and gpu_event.precision in ('tf32', 'bf16', 'fp16')
        and is_matrix_product(gpu_event.op)
        and op.input_dims is not null
),

operand_pair as (
    select
        *,
        try_cast(input_dims -> first as bigint[]) as a,
        try_cast(input_dims -> (first + 1) as bigint[]) as b,
        try_cast(input_strides -> first as bigint[]) as a_stride,
        try_cast(input_strides -> (first + 1) as bigint[]) as b_stride
    from product
),

-- One row per product, with M, N, K and the row lengths of the operands.
sized_product as (
    select
        *,
        if(len(a) = 3, a[1], 1) as batch,
        a[-2] as m,
        a[-1] as k,
        b[-1] as n,
        coalesce(greatest(a_stride[-1], a_stride[-2]), k) as a_row,
        coalesce(greatest(b_stride[-1], b_stride[-2]), n) as b_row
    from operand_pair
    where len(a) in (2, 3) and len(b) = len(a)
),

-- One row per product, with the least time on the GPU.
bounded_product as (
    select
        sized_product.*,
        1e9 * greatest(
            2.0 * batch * m * n * k / device_peak.flop_per_s,
            1.0 * batch * (m * k + k * n + m * n) * item_bytes / gpu_model.memory_bytes_per_s
        ) as least_ns
    from sized_product
    inner join gpu_model on sized_product.rank = gpu_model.rank and sized_product.device = gpu_model.device_id
    inner join device_peak
        on
            sized_product.rank = device_peak.rank
            and sized_product.device = device_peak.device_id
            and sized_product.unit = device_peak.unit
            and sized_product.precision = device_peak.precision
)

select
    event_id,
    'work' as effect,
    track_id,
    start_ns,
    end_ns,
    floor(greatest(0, dur_ns - least_ns))::bigint as saved_ns,
    short_name as name
from bounded_product
where
    least_ns is not null
    and (a_row * item_bytes % 16 != 0 or b_row * item_bytes % 16 != 0 or n * item_bytes % 16 != 0)
order by event_id
