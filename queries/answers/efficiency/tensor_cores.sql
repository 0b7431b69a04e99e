-- Matrix products on tensor cores and beside them: how much time, which could run there and do not, why, and what it
-- costs.
--
-- The kernel's name tells whether products run on matrix units (tensor cores), so times need no shapes. A product on
-- vector units is eligible if its operands are of half precision, or FP32 where the GPU multiplies it in TF32. With
-- shapes, the saving is the time over that of the same product at the peak of the matrix units or the bandwidth of
-- memory; products with a vector are bound by memory, so they save little. Reasons, the first that holds:
-- no_matrix_unit (the GPU has none for this type), fp64, fp32_without_tf32, vector (matrix times vector), depthwise (a
-- convolution of single channels), unaligned (a dimension that is no multiple of 8 elements of half precision, or 4 of
-- TF32: NVIDIA, "Matrix multiplication background user's guide", 2.2), kernel_choice (none of these).
--
-- :param by VARCHAR in (op, module, module_type, reason) = 'op'
--                                what a row is
-- :param rank BIGINT = NULL      only this rank
-- :param step BIGINT = NULL      only work launched in this step
-- :param phase PHASE = NULL      only work launched in this phase
-- :param module VARCHAR = NULL   only work launched in this module or one in it, by path
-- :param limit BIGINT >= 0 or NULL = 20  so many rows; NULL for all
-- :reads kernel_roofline, op_work, model_op, device_peak, gpu_model
-- :column name VARCHAR           the op, module or reason; NULL outside of all, or for products on matrix units
-- :column gpu_time_ns BIGINT     time of matrix products
-- :column matrix_ns BIGINT       of it, on matrix units
-- :column vector_ns BIGINT       of it, on vector units
-- :column matrix_pct DOUBLE      share on matrix units
-- :column precision VARCHAR      precision of most of the time
-- :column eligible_ns BIGINT     time on vector units of products that matrix units could do
-- :column reason VARCHAR         why most of the time on vector units is not on matrix units; NULL without any
-- :column saving_ns BIGINT       what the eligible products take longer than at best on matrix units; NULL where shapes
--                                or peaks are not known
-- :column largest_id BIGINT      the longest kernel on vector units, else the longest
with peak as (
    select
        device_peak.rank,
        device_peak.device_id,
        map_from_entries(list({'key': device_peak.precision, 'value': device_peak.flop_per_s})) as flop_per_s
    from device_peak
    where device_peak.unit = 'matrix'
    group by device_peak.rank, device_peak.device_id
),

product as (
    select
        kernel_roofline.rank,
        kernel_roofline.event_id,
        kernel_roofline.op,
        kernel_roofline.module_path,
        model_op.type as module_type,
        kernel_roofline.dur_ns,
        kernel_roofline.unit,
        -- Beside matrix units, operands decide: what adds up in FP32 may multiply half precision.
        coalesce(
            case when kernel_roofline.unit = 'vector' then kernel_roofline.dtype end, kernel_roofline.precision
        ) as "precision",
        kernel_roofline.matrix_flop,
        kernel_roofline.memory_ns,
        op_work.family,
        op_work.m,
        op_work.n,
        op_work.k,
        coalesce(peak.flop_per_s, map([], [])) as peaks,
        gpu_model.model is not null as is_known_gpu,
        -- The type that matrix units would take: FP32 goes as TF32.
        if("precision" = 'fp32', 'tf32', "precision") as matrix_precision
    from kernel_roofline
    left join op_work on kernel_roofline.rank = op_work.rank and kernel_roofline.work_id = op_work.event_id
    left join model_op on kernel_roofline.rank = model_op.rank and kernel_roofline.module_id = model_op.module_id
    left join peak on kernel_roofline.rank = peak.rank and kernel_roofline.device = peak.device_id
    left join gpu_model on kernel_roofline.rank = gpu_model.rank and kernel_roofline.device = gpu_model.device_id
    where
        kernel_roofline.unit is not null
        and is_asked($rank, kernel_roofline.rank)
        and is_asked($step, kernel_roofline.step)
        and is_asked($phase, kernel_roofline.phase)
        and in_module(kernel_roofline.module_path, $module)
),

explained as (
    select
        *,
        case
            when unit = 'matrix' then null
            when is_known_gpu and peaks[matrix_precision] is null then 'no_matrix_unit'
            when "precision" = 'fp64' then 'fp64'
            when "precision" = 'fp32' then 'fp32_without_tf32'
            when m = 1 or n = 1 then 'vector'
            when family like '%convolution%' and regexp_matches(op, 'depthwise') then 'depthwise'
            when greatest(m % 8, n % 8, k % 8) > 0 then 'unaligned'
            else 'kernel_choice'
        end as reason,
        coalesce(reason not in ('no_matrix_unit', 'fp64'), false) as is_eligible,
        greatest(0, dur_ns - greatest(1e9 * matrix_flop / peaks[matrix_precision], memory_ns)) as over_ns
    from product
),

named as (
    select
        *,
        case $by
            when 'module' then module_path
            when 'module_type' then module_type
            when 'reason' then reason
            else op
        end as name
    from explained
)

select
    name,
    sum(dur_ns)::bigint as gpu_time_ns,
    coalesce(sum(dur_ns) filter (where unit = 'matrix'), 0)::bigint as matrix_ns,
    coalesce(sum(dur_ns) filter (where unit = 'vector'), 0)::bigint as vector_ns,
    100.0 * matrix_ns / nullif(sum(dur_ns), 0) as matrix_pct,
    arg_max("precision", (dur_ns, event_id)) as "precision",
    coalesce(sum(dur_ns) filter (where is_eligible), 0)::bigint as eligible_ns,
    arg_max(reason, (dur_ns, event_id)) filter (where reason is not null) as reason,
    round(sum(over_ns) filter (where is_eligible))::bigint as saving_ns,
    arg_max(event_id, (unit = 'vector', dur_ns, event_id)) as largest_id
from named
group by name
order by eligible_ns desc, gpu_time_ns desc, name
limit $limit
