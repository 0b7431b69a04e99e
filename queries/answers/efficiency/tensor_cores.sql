-- Matrix products on and off tensor cores: time, eligible products, the reason they run elsewhere, and the cost.
--
-- The kernel's name shows whether products run on matrix units (tensor cores), so times need no shapes. A product on
-- vector units is eligible if its operands are half precision, or FP32 on a GPU with TF32. With shapes, the saving is
-- the time above the least time of the same product at the peak of the matrix units or at the memory bandwidth.
-- Products with a vector are bound by memory and save little.
--
-- Reasons (the first match applies):
--
--   no_matrix_unit     the GPU has no matrix unit for this type
--   fp64               the product is FP64
--   fp32_without_tf32  the product is FP32 and does not use TF32
--   vector             matrix times vector
--   depthwise          a convolution of single channels
--   unaligned          a dimension is no multiple of 8 elements of half precision, or 4 of TF32 (NVIDIA, "Matrix
--                      multiplication background user's guide", 2.2)
--   kernel_choice      any other reason
--
-- :param by VARCHAR in (op, module, module_type, reason) = 'op'
--                                one row per value of this column
-- :param rank BIGINT = NULL      only this rank
-- :param step BIGINT = NULL      only work launched in this step
-- :param phase PHASE = NULL      only work launched in this phase
-- :param module VARCHAR = NULL   only work launched in this module or its submodules, by path
-- :param limit BIGINT >= 0 or NULL = 20
--                                maximum number of rows; NULL for all
-- :reads kernel_roofline, op_work, model_op, device_peak, gpu_model
-- :column name VARCHAR           op, module or reason; NULL for work outside of all, or (by reason) for products on
--                                matrix units
-- :column gpu_time_ns BIGINT     time of matrix products
-- :column matrix_ns BIGINT       time on matrix units
-- :column vector_ns BIGINT       time on vector units
-- :column matrix_pct DOUBLE      share on matrix units
-- :column precision VARCHAR      precision with the most time
-- :column eligible_ns BIGINT     time on vector units of products eligible for matrix units
-- :column reason VARCHAR         reason of most of the time on vector units; NULL without such time
-- :column saving_ns BIGINT       time of the eligible products above their least time on matrix units; NULL if shapes
--                                or peaks are unknown
-- :column largest_id BIGINT      longest kernel on vector units, else the longest kernel
with peak as (
    select
        device_peak.rank,
        device_peak.device_id,
        map_from_entries(list({'key': device_peak.precision, 'value': device_peak.flop_per_s})) as flop_per_s
    from device_peak
    where device_peak.unit = 'matrix'
    group by device_peak.rank, device_peak.device_id
),

-- one row per kernel of matrix products, with its operand type and the peaks of the GPU
product as (
    select
        kernel_roofline.rank,
        kernel_roofline.event_id,
        kernel_roofline.op,
        kernel_roofline.module_path,
        model_op.type as module_type,
        kernel_roofline.dur_ns,
        kernel_roofline.unit,
        -- On vector units the operand type decides: a product accumulated in FP32 may multiply half precision.
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
        -- The precision on matrix units: FP32 would run as TF32.
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

-- one row per product, with the reason for vector units and the possible saving
explained_product as (
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

-- one row per product, with the key of its row
named_product as (
    select
        *,
        case $by
            when 'module' then module_path
            when 'module_type' then module_type
            when 'reason' then reason
            else op
        end as name
    from explained_product
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
from named_product
group by name
order by eligible_ns desc, gpu_time_ns desc, name
limit $limit
