-- Work of ops, from what the profiler recorded of their arguments.
--
-- Sizes are DOUBLE, as damaged shapes multiply to more than any integer: up to 9e15 they are exact.

-- Elements of a tensor of these sizes; one of no dimension has one. NULL without a tensor, or if a size is unknown.
create or replace macro element_count(sizes) as
case when list_count(sizes) = len(sizes) then list_product(sizes || [1::bigint]) end;

-- The numbers of a list in text, such as `[2, 2]`, or of a single one.
create or replace macro numbers_of(text) as
list_transform(regexp_extract_all(text, '-?\d+'), lambda number: try_cast(number as bigint));

-- Whether the text of an argument says yes.
create or replace macro is_true(text) as
lower(text) in ('true', '1');

-- The value for an axis of a list that has one for each, or one for all, or none.
create or replace macro of_axis(list, axis, otherwise) as
coalesce(if(len(list) = 1, list[1], list[axis]), otherwise);

-- Bytes of an element of a type that an argument gives as its number (c10/core/ScalarType.h); NULL without one.
create or replace macro bytes_of_type(number) as
case
    when number in ('0', '1', '11', '23', '24', '25', '26') then 1
    when number in ('2', '5', '15') then 2
    when number in ('3', '6', '8') then 4
    when number in ('4', '7', '9') then 8
    when number = '10' then 16
end;

-- A count as an integer; NULL if there is none, or if it is too large for one.
create or replace macro whole(number) as
try_cast(number as bigint);

-- A number of elements that cannot be negative or none; NULL if it is.
create or replace macro positive(number) as
case when number > 0 then number end;

-- Elements along one axis after a window has moved over it, of a convolution or pooling; NULL where none fits. The last
-- window may end behind the padding if `is_ceiled`, but must begin before it.
create or replace macro pooled_size(size, kernel, stride, pad, dilation, is_ceiled) as
positive(if(
    is_ceiled,
    least(
        ceil((size + 2 * pad::double - dilation::double * (kernel::double - 1) - 1) / positive(stride)) + 1,
        ceil((size + pad::double) / positive(stride))
    ),
    floor((size + 2 * pad::double - dilation::double * (kernel::double - 1) - 1) / positive(stride)) + 1
));

-- Elements along one axis of what a transposed convolution gives.
create or replace macro widened_size(size, kernel, stride, pad, dilation, output_padding) as
positive(
    (size::double - 1) * stride - 2 * pad::double + dilation::double * (kernel::double - 1) + output_padding + 1
);

-- The precision in which a kernel of products runs: by its name, else by the types of the op that launched it. NULL for
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

-- The unit on which products run, by what a kernel's name says. One that computes products and does not say where is
-- taken for one of its type's usual unit.
create or replace macro unit_of_work(unit_of_kernel, matrix_flop, dtype) as
coalesce(
    unit_of_kernel, case when matrix_flop > 0 then if(dtype in ('fp32', 'fp64'), 'vector', 'matrix') end
);

-- Works with the least time that their GPU needs for each, and what bounds it (`kernel_roofline`). `works` have a rank,
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
                -- On NVIDIA's GPUs, what multiplies FP32 on tensor cores does it in TF32.
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
            -- A cache can hold as much of what is read when the work begins, and of what is written when it ends.
            1e9 * if(bytes > 2 * cache_bytes, bytes - 2 * cache_bytes, 0 * cache_bytes) / bytes_per_s as uncached_ns,
            -- Without the peak for its products, or the bytes, the longest time would be too short.
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

-- Ops in some ops or nodes, `roots`, with what they were given when their root was learned, if all in the root have the
-- names that were learned, in this order: `event_id`, `root_id`, `place` from 0, and `argument_id`. Roots do not cross
-- on a thread; each has `event_id`, `track_id`, `start_ns`, `end_ns`, `depth` and the `tree_id` of what was learned.
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

-- Bytes of an element of a type, as the profiler names it in shapes (`rules/dtypes.csv`); NULL for types of no numbers.
create or replace macro bytes_of_dtype(name) as
case
    when regexp_matches(name, '(?i)float8|float4|bool|char|quint8|qint8') then 1
    when regexp_matches(name, '(?i)complex') then if(contains(name, 'double'), 16, if(contains(name, 'Half'), 4, 8))
    when regexp_matches(name, '(?i)double|long') then 8
    when regexp_matches(name, '(?i)half|bfloat16|short') then 2
    when regexp_matches(name, '(?i)^(float|int|unsigned int|c10::qint32)$') then 4
end;

-- Whether an op computes a matrix product, a convolution or attention by itself, rather than by an op that it calls.
create or replace macro is_product_op(name) as
regexp_matches(
    name,
    '^aten::(_?(add)?(b?mm|mv)|baddbmm|addbmm|_scaled_mm|(mkldnn|cudnn|miopen)_convolution\w*'
    || '|_?slow_conv\w*|_conv_depthwise\w*|convolution_backward'
    || '|_?scaled_dot_product_(flash|efficient|cudnn|fused)\w*|_(flash|efficient)_attention\w*)$'
);
