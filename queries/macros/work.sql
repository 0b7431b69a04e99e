-- Work of ops, computed from recorded arguments.
--
-- Sizes are DOUBLE, because sizes from damaged shapes can multiply to more than any integer type holds. Up to 9e15,
-- sizes are exact.

-- Elements of a tensor with these sizes; a tensor without dimensions has one element. NULL without a tensor, or if a
-- size is unknown.
create or replace macro element_count(sizes) as
case when list_count(sizes) = len(sizes) then list_product(sizes || [1::bigint]) end;

-- Numbers in the text of a list, like `[2, 2]`, or of a single number.
create or replace macro numbers_of(text) as
list_transform(regexp_extract_all(text, '-?\d+'), lambda number: try_cast(number as bigint));

-- Whether the text of an argument is true.
create or replace macro is_true(text) as
lower(text) in ('true', '1');

-- Value for an axis, from a list with one value per axis or one for all axes. `otherwise` for an empty list.
create or replace macro of_axis(list, axis, otherwise) as
coalesce(if(len(list) = 1, list[1], list[axis]), otherwise);

-- Bytes per element of a type; NULL for unknown types. The name may be a C++ type, as in the profiler's shapes
-- (`long int`, `c10::complex<c10::Half>`), a name of c10/core/ScalarType.h, as in its collectives (`Long`,
-- `ComplexHalf`), or a name in Python (`int64`, `torch.complex32`). Two FP4 values share a byte, and count as one
-- element.
create or replace macro bytes_of_dtype(name) as
case
    when regexp_full_match(name, '(?i)(c10::|torch\.)?(bool|byte|((un)?signed )?char|q?u?int8|float8_\w+|float4_\w+)')
        then 1::bigint
    when regexp_full_match(name, '(?i)(c10::|torch\.)?(b?float16|half|(unsigned )?short( int)?|u?int16)') then 2
    when regexp_full_match(
        name, '(?i)(c10::|torch\.)?(float(32)?|(unsigned )?int|q?u?int32|complex(32|half|<c10::half>))'
    ) then 4
    when regexp_full_match(
        name, '(?i)(c10::|torch\.)?(double|float64|(unsigned )?long( long)?( int)?|u?int64|complex(64|float|<float>))'
    ) then 8
    when regexp_full_match(name, '(?i)(c10::|torch\.)?complex(128|double|<double>)') then 16
end;

-- Bytes per element of a type given by number in an argument; NULL without a type. The numbers count the names of
-- c10/core/ScalarType.h from 0.
create or replace macro bytes_of_type(number) as
bytes_of_dtype(([
    'Byte', 'Char', 'Short', 'Int', 'Long', 'Half', 'Float', 'Double', 'ComplexHalf', 'ComplexFloat', 'ComplexDouble',
    'Bool', 'QInt8', 'QUInt8', 'QInt32', 'BFloat16', 'QUInt4x2', 'QUInt2x4', 'Bits1x8', 'Bits2x4', 'Bits4x2', 'Bits8',
    'Bits16', 'Float8_e5m2', 'Float8_e4m3fn', 'Float8_e5m2fnuz', 'Float8_e4m3fnuz', 'UInt16', 'UInt32', 'UInt64'
])[try_cast(number as bigint) + 1]);

-- A count as an integer; NULL if the count is unknown or exceeds 64 bits.
create or replace macro whole(number) as
try_cast(number as bigint);

-- A positive number of elements; NULL for zero and negative numbers.
create or replace macro positive(number) as
case when number > 0 then number end;

-- Output elements along one axis of a convolution or pooling window; NULL if the window does not fit. With `is_ceiled`,
-- the last window may end after the padding, but must begin before it.
create or replace macro pooled_size(size, kernel, stride, pad, dilation, is_ceiled) as
positive(if(
    is_ceiled,
    least(
        ceil((size + 2 * pad::double - dilation::double * (kernel::double - 1) - 1) / positive(stride)) + 1,
        ceil((size + pad::double) / positive(stride))
    ),
    floor((size + 2 * pad::double - dilation::double * (kernel::double - 1) - 1) / positive(stride)) + 1
));

-- Output elements along one axis of a transposed convolution.
create or replace macro widened_size(size, kernel, stride, pad, dilation, output_padding) as
positive(
    (size::double - 1) * stride - 2 * pad::double + dilation::double * (kernel::double - 1) + output_padding + 1
);

-- Precision of a matrix product kernel, by the kernel's name or else by the input types of the launching op. NULL for
-- all other kernels.
create or replace macro precision_of_kernel(unit_of_kernel, named, input_types) as
case when unit_of_kernel is not null then coalesce(
    named,
    case
        when regexp_matches(input_types, 'BFloat16') then 'bf16'
        when regexp_matches(input_types, 'Half') then 'fp16'
        when regexp_matches(input_types, 'float') then 'fp32'
        when regexp_matches(input_types, 'double') then 'fp64'
    end
) end;

-- Unit that runs the products, by the kernel's name. If the name does not show the unit, the usual unit for the type.
create or replace macro unit_of_work(unit_of_kernel, matrix_flop, dtype) as
coalesce(
    unit_of_kernel, case when matrix_flop > 0 then if(dtype in ('fp32', 'fp64'), 'vector', 'matrix') end
);

-- Works with the least time possible on their GPU, and the bounding resource (`kernel_roofline`). `works` have a rank,
-- device, unit, precision, dtype, matrix_flop, vector_flop, bytes and is_link_copy; `peaks` is 'device_peak', and
-- `models` is 'gpu_model'.
create or replace macro with_roofline(works, peaks, models) as table
    with peak_of_device as (
        select
            rank,
            device_id,
            map_from_entries(list({'key': unit || ' ' || "precision", 'value': flop_per_s})) as flop_per_s
        from query_table(peaks)
        group by rank, device_id
    ),

    work_with_limits as (
        select
            work.*,
            case
                -- On NVIDIA's GPUs, tensor cores multiply FP32 inputs in TF32.
                when work.unit = 'matrix' and work.precision = 'fp32'
                    then coalesce(device_peak.flop_per_s['matrix fp32'], device_peak.flop_per_s['matrix tf32'])
                when work.unit = 'matrix' then device_peak.flop_per_s['matrix ' || work.precision]
                when work.unit = 'vector'
                    then device_peak.flop_per_s[if(work.precision = 'fp64', 'vector fp64', 'vector fp32')]
            end as matrix_flop_per_s,
            device_peak.flop_per_s[if(work.dtype = 'fp64', 'vector fp64', 'vector fp32')] as vector_flop_per_s,
            case when not work.is_link_copy then model.memory_bytes_per_s end as bytes_per_s,
            model.cache_bytes
        from query_table(works) as work
        left join peak_of_device as device_peak
            on work.rank = device_peak.rank and work.device = device_peak.device_id
        left join query_table(models) as model on work.rank = model.rank and work.device = model.device_id
    ),

    work_with_times as (
        select
            *,
            if(matrix_flop = 0, 0, 1e9 * matrix_flop / matrix_flop_per_s) as matrix_ns,
            1e9 * vector_flop / vector_flop_per_s as vector_ns,
            1e9 * bytes / bytes_per_s as memory_ns,
            -- A full cache may already hold inputs at the start of the work, and may still hold outputs at the end.
            1e9 * if(bytes > 2 * cache_bytes, bytes - 2 * cache_bytes, 0 * cache_bytes) / bytes_per_s as uncached_ns,
            -- If the peak for the products or the number of bytes is unknown, the longest known time would be too
            -- short.
            case
                when matrix_flop > 0 and matrix_ns is null then null
                when memory_ns is not null or matrix_flop > 0 then greatest(matrix_ns, vector_ns, memory_ns)
            end as roofline_ns
        from work_with_limits
    )

    select
        *,
        case roofline_ns
            when matrix_ns then 'matrix'
            when memory_ns then 'memory'
            when vector_ns then 'vector'
        end as bound
    from work_with_times;

-- Ops inside `roots` (ops or nodes), with the arguments recorded when the root's tree was learned. A root has rows only
-- if all its ops have the learned names in the learned order. Columns: `event_id`, `root_id`, `place` from 0, and
-- `argument_id`. Roots do not cross on a thread. Each root has `event_id`, `track_id`, `start_ns`, `end_ns`, `depth`
-- and the `tree_id` of the learned tree.
create or replace macro calls_as_learned(roots, spans, events, learned) as table
    with inner_op as (
        select
            span.event_id,
            event.name,
            root.event_id as root_id,
            root.tree_id,
            row_number() over (partition by root.event_id order by span.start_ns, span.depth, span.event_id) - 1
                as place
        from query_table(spans) as span
        inner join query_table(events) as event on span.event_id = event.event_id and event.category = 'cpu_op'
        asof inner join query_table(roots) as root
            on span.track_id = root.track_id and span.start_ns >= root.start_ns
        where span.start_ns < root.end_ns and (span.depth > root.depth or span.event_id = root.event_id)
    ),

    compared_op as (
        select
            inner_op.event_id,
            inner_op.root_id,
            inner_op.place,
            call.argument_id,
            count(call.tree_id) over of_root = count(*) over of_root
            and max(call.call_count) over of_root = count(*) over of_root as is_same
        from inner_op
        left join query_table(learned) as call
            on
                inner_op.tree_id = call.tree_id
                and inner_op.place = call.place
                and inner_op.name = call.name
        window of_root as (partition by inner_op.root_id)
    )

    select
        event_id,
        root_id,
        place,
        argument_id
    from compared_op
    where is_same;

-- Whether an op itself computes a matrix product, a convolution or attention, rather than calling another op to do it.
create or replace macro is_product_op(name) as
regexp_matches(
    name,
    '^aten::(_?(add)?(b?mm|mv)|baddbmm|addbmm|_scaled_mm|(mkldnn|cudnn|miopen)_convolution\w*'
    || '|_?slow_conv\w*|_conv_depthwise\w*|convolution_backward'
    || '|_?scaled_dot_product_(flash|efficient|cudnn|fused)\w*|_(flash|efficient)_attention\w*)$'
);
