-- Possible gain per op, shape, module, kernel or phase: actual time against the roofline of the GPU.
--
-- The roofline is the longest of three times: matrix products at peak, other arithmetic at peak, and bytes at the
-- memory bandwidth. `lost_ns` is the time above the roofline; sort by this column. Rates are sums of work over sums of
-- time.
--
-- Bytes are the least traffic. Work with operands in the cache can therefore be faster than the memory bandwidth
-- allows, and convolutions by Winograd or FFT need fewer FLOP than counted. `over_reason` gives the reason for an
-- efficiency above 100 %. Work without a formula counts only in `gpu_time_ns`. Communication is left out.
--
-- :param by VARCHAR in (op, shape, module, module_type, kernel, phase, step) = 'op'
--                                 one row per value of this column; a shape is an op with the sizes of its arguments
-- :param rank BIGINT = NULL       only this rank
-- :param step BIGINT = NULL       only work launched in this step
-- :param phase PHASE = NULL       only work launched in this phase
-- :param module VARCHAR = NULL    only work launched in this module or its submodules, by path
-- :param family VARCHAR in (attention, attention_backward, concatenation, convolution, convolution_backward, copy,
--     dropout, embedding, embedding_backward, fill, foreach, fused_optimizer, gather, gemm, grouped_gemm, index_select,
--     linear, loss, loss_backward, normalisation, pointers, pointwise, pooling, pooling_backward, reduction, rnn,
--     rnn_backward, softmax, transposed_convolution) = NULL
--                                 only work that this formula counts
-- :param limit BIGINT >= 0 or NULL = 20
--                                 maximum number of rows; NULL for all
-- :reads kernel_roofline, op, captured_op, model_op
-- :column name VARCHAR            op, module, kernel, phase or step; NULL for work outside of all
-- :column shape VARCHAR           sizes of the op's arguments; NULL unless grouped by shape
-- :column family VARCHAR          formula of the most time
-- :column dtype VARCHAR           operand type of the most time
-- :column unit VARCHAR            unit of the matrix products, by most time: matrix (tensor cores) or vector
-- :column precision VARCHAR       precision of the matrix products, by most time
-- :column work_count BIGINT       number of ops with known work
-- :column matrix_flop BIGINT      FLOP of matrix products
-- :column vector_flop BIGINT      other FLOP
-- :column bytes BIGINT            least bytes
-- :column flop_per_byte DOUBLE    FLOP per least byte
-- :column gpu_time_ns BIGINT      time on the GPU, including unknown work
-- :column gpu_time_pct DOUBLE     share of the selection's time on the GPU
-- :column tflop_per_s DOUBLE      matrix FLOP over the time of the known work, in 10^12 per second
-- :column gb_per_s DOUBLE         bytes over the time of the known work, in 10^9 per second
-- :column peak_tflop_per_s DOUBLE the GPU's peak in the unit and precision of most of its arithmetic; NULL if not known
-- :column peak_gb_per_s DOUBLE    memory bandwidth of the GPU; NULL if unknown
-- :column bound VARCHAR           limit of most of the roofline time: matrix, vector or memory
-- :column roofline_ns BIGINT      least time of the known work; NULL if the GPU's limits are unknown
-- :column efficiency_pct DOUBLE   least time as a share of the actual time
-- :column lost_ns BIGINT          actual time above the least time
-- :column lost_pct DOUBLE         share of the lost time of the whole selection
-- :column over_reason VARCHAR     reason for an efficiency over 100 %: cache, fewer_flop, or unknown; NULL for up to
--                                 100 %
-- :column largest_id BIGINT       the GPU event with the most lost time

-- one row per selected GPU event, with its work and its actual time
with work as (
    select
        kernel_roofline.*,
        model_op.type as module_type,
        coalesce(op.input_dims, captured_op.input_dims) as input_dims,
        coalesce(kernel_roofline.time_ns, kernel_roofline.dur_ns) as took_ns,
        case when kernel_roofline.roofline_ns is not null then kernel_roofline.time_ns end as known_ns
    from kernel_roofline
    left join model_op on kernel_roofline.rank = model_op.rank and kernel_roofline.module_id = model_op.module_id
    left join op
        on $by = 'shape' and kernel_roofline.rank = op.rank and kernel_roofline.work_id = op.event_id
    left join captured_op
        on
            $by = 'shape'
            and kernel_roofline.rank = captured_op.rank
            and kernel_roofline.work_id = captured_op.event_id
    where
        kernel_roofline.class != 'communication'
        and is_asked($rank, kernel_roofline.rank)
        and is_asked($step, kernel_roofline.step)
        and is_asked($phase, kernel_roofline.phase)
        and in_module(kernel_roofline.module_path, $module)
        and is_asked($family, kernel_roofline.family)
),

-- one row per GPU event, with the key of its row
named_work as (
    select
        *,
        case $by
            when 'module' then module_path
            when 'module_type' then module_type
            when 'kernel' then short_name
            when 'phase' then phase
            when 'step' then step::varchar
            else op
        end as name,
        -- Drop arguments without sizes (not tensors) at the end.
        if($by = 'shape', regexp_replace(input_dims::varchar, '^\[|(,\[\])*\]$', '', 'g'), null) as shape
    from work
),

-- One row per name and shape: sums of work and time, and the values with the most time.
work_total as (
    select
        name,
        shape,
        arg_max(family, (took_ns, event_id)) filter (where work_id is not null) as family,
        arg_max(dtype, (took_ns, event_id)) filter (where work_id is not null) as dtype,
        arg_max(unit, (took_ns, event_id)) filter (where unit is not null) as unit,
        arg_max("precision", (took_ns, event_id)) filter (where unit is not null) as "precision",
        count(distinct {'rank': rank, 'work_id': work_id}) filter (where work_id is not null) as work_count,
        sum(matrix_flop)::bigint as matrix_flop,
        sum(vector_flop)::bigint as vector_flop,
        sum(bytes)::bigint as bytes,
        sum(took_ns)::bigint as gpu_time_ns,
        sum(time_ns) filter (where matrix_flop is not null) as flop_ns,
        sum(time_ns) filter (where bytes is not null) as bytes_ns,
        1e-12 * coalesce(
            arg_max(matrix_flop_per_s, (took_ns, event_id)) filter (where matrix_flop > 0),
            arg_max(vector_flop_per_s, (took_ns, event_id)) filter (where vector_flop > 0)
        ) as peak_tflop_per_s,
        1e-9 * max(bytes_per_s) as peak_gb_per_s,
        sum(known_ns) as known_ns,
        round(sum(roofline_ns))::bigint as roofline_ns,
        sum(least(roofline_ns, greatest(matrix_ns, vector_ns, coalesce(uncached_ns, roofline_ns)))) as uncached_ns,
        sum(roofline_ns) filter (where bound = 'matrix') as by_matrix_ns,
        sum(roofline_ns) filter (where bound = 'memory') as by_memory_ns,
        sum(roofline_ns) filter (where bound = 'vector') as by_vector_ns,
        arg_max(event_id, (known_ns - roofline_ns, event_id)) as largest_id
    from named_work
    group by name, shape
),

-- one row per name and shape, with its main limit and its lost time
bounded_total as (
    select
        *,
        case greatest(by_matrix_ns, by_memory_ns, by_vector_ns)
            when by_matrix_ns then 'matrix'
            when by_memory_ns then 'memory'
            when by_vector_ns then 'vector'
        end as bound,
        known_ns - roofline_ns as lost_ns
    from work_total
)

select
    name,
    shape,
    family,
    dtype,
    unit,
    "precision",
    work_count,
    matrix_flop,
    vector_flop,
    bytes,
    (matrix_flop + coalesce(vector_flop, 0)) / nullif(bytes, 0)::double as flop_per_byte,
    gpu_time_ns,
    100.0 * gpu_time_ns / nullif(sum(gpu_time_ns) over (), 0) as gpu_time_pct,
    1e-3 * matrix_flop / nullif(flop_ns, 0) as tflop_per_s,
    bytes / nullif(bytes_ns, 0)::double as gb_per_s,
    peak_tflop_per_s,
    peak_gb_per_s,
    bound,
    roofline_ns,
    100.0 * roofline_ns / nullif(known_ns, 0) as efficiency_pct,
    lost_ns::bigint as lost_ns,
    100.0 * lost_ns / nullif(sum(greatest(lost_ns, 0)) over (), 0) as lost_pct,
    case
        when efficiency_pct <= 100 or efficiency_pct is null then null
        when bound = 'memory' and uncached_ns <= known_ns then 'cache'
        when bound = 'matrix' and family like '%convolution%' then 'fewer_flop'
        else 'unknown'
    end as over_reason,
    largest_id
from bounded_total
order by lost_ns desc nulls last, gpu_time_ns desc, name, shape
limit $limit
