-- Work of ops that compute each element of the result separately, and of copies and fills.
--
-- FLOP are steps per element of the result (a convention; `steps` in the rules, 1 by default, 0 for copies). Each
-- tensor is read once; elements shared by a stride of 0 are read once for all positions. The result is written once,
-- and an in-place result is read and written. A number does not count as a tensor. The type of the result follows
-- PyTorch's promotion: a float if any operand is a float, else an integer, and within this kind the largest tensor's
-- type; for comparisons, a byte. Some ops sum up the result (`reduction`), or halve it (`parts`).
--
-- :reads op_shape
-- :only_with op_shape where family in ('pointwise', 'copy', 'fill', 'dropout')
-- :column shape_id BIGINT      the call
-- :column dtype VARCHAR        type of the result
-- :column batch BIGINT         NULL
-- :column m BIGINT             elements of the result
-- :column n BIGINT             NULL
-- :column k BIGINT             NULL
-- :column matrix_flop BIGINT   always 0
-- :column model_flop BIGINT    always 0
-- :column dense_flop BIGINT    always 0
-- :column vector_flop BIGINT   steps times elements
-- :column bytes BIGINT         operands read and results written once
-- :column evidence VARCHAR     shapes
with argument as (
    select
        shape_id,
        family,
        coalesce(roles['operands'], argument_count) as operand_count,
        concrete[roles['reduction'] + 1] in ('1', '2') as is_reduced,
        generate_subscripts(dtypes, 1) as position,
        sizes[position] as sizes,
        dtypes[position] as dtype,
        floats[position] as is_float,
        item_bytes[position] as item_bytes,
        counts[position] as count,
        read_counts[position] as read_count
    from op_shape
    where family in ('pointwise', 'copy', 'fill', 'dropout')
),

operand as (
    select
        *,
        -- Python numbers are recorded as 0-dimensional doubles and integers.
        position = 1 or family = 'copy' or len(sizes) > 0 or dtype not in ('fp64', 'int64') as is_tensor
    from argument
    -- The argument after the operands is a tensor for the result.
    where sizes is not null and position <= operand_count
),

-- Calls with the type and the broadcast shape of the result.
result as (
    select
        shape_id,
        element_count(list_transform(
            range(1, max(len(sizes)) + 1), lambda axis: list_max(list_transform(list(sizes), lambda each: each[-axis]))
        )) as result_count,
        any_value(is_reduced) as is_reduced,
        bool_and(dtype is not null) as is_known,
        arg_max(
            -- A number among integers makes PyTorch's default type.
            if(not is_tensor and dtype = 'fp64', {'name': 'fp32', 'bytes': 4}, {'name': dtype, 'bytes': item_bytes}),
            (is_float, dtype != 'bool', is_tensor, len(sizes) > 0, item_bytes, -position)
        ) as result_type,
        sum(read_count * item_bytes) filter (where is_tensor) as read_bytes,
        sum(read_count * item_bytes) filter (where is_tensor and position > 1) as source_bytes,
        max(count * item_bytes) filter (where position = 1) as first_bytes
    from operand
    group by shape_id
),

pointwise as (
    select
        op_shape.shape_id,
        result.result_type.name as dtype,
        result.result_count,
        result.result_count * coalesce(op_shape.roles['steps'], 1) as flop,
        case if(result.is_known, op_shape.family, null)
            when 'copy' then result.source_bytes + result.first_bytes
            when 'fill' then result.first_bytes
            when op_shape.family then result.read_bytes + if(
                op_shape.in_place,
                result.first_bytes,
                if(result.is_reduced, 1, result.result_count / coalesce(op_shape.roles['parts'], 1))
                * coalesce(op_shape.roles['result_bytes'], result.result_type.bytes)
            ) + if(op_shape.family = 'dropout', result.result_count, 0)
        end as bytes
    from op_shape
    inner join result on op_shape.shape_id = result.shape_id
)

select
    shape_id,
    dtype,
    null::bigint as batch,
    whole(result_count) as m,
    null::bigint as n,
    null::bigint as k,
    0::bigint as matrix_flop,
    0::bigint as model_flop,
    0::bigint as dense_flop,
    whole(flop) as vector_flop,
    whole(bytes) as bytes,
    'shapes' as evidence
from pointwise
