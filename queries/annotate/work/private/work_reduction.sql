-- Work of normalisation, softmax and reductions: ops that read an input one or more times, and need a complete row.
--
-- The rules give FLOP per element (`steps`) and the moved bytes as a multiple of the input's bytes (`passes`): layer
-- norm 5 and 2, softmax 5 and 2, and their gradients. The bytes are the least traffic: an input read twice because it
-- exceeds the cache counts once. Weights, biases and channel statistics are read or written once (all tensors except
-- the input, `x`, and the gradient, `dy`). Reductions write the remaining shape, with an index per value if the rule
-- has `index_bytes`; sums of integers have 8 bytes (`integer_bytes`). If the axes are not recorded, the written bytes
-- are unknown. FLOP per element: fvcore, flop_count (batch norm 2 in evaluation, layer norm 5); a convention.
--
-- :reads op_shape
-- :only_with op_shape where family in ('normalisation', 'softmax', 'reduction')
-- :column shape_id BIGINT      the call
-- :column dtype VARCHAR        type of the input
-- :column batch BIGINT         NULL
-- :column m BIGINT             elements of the input
-- :column n BIGINT             elements of the result of a reduction; NULL for other ops
-- :column k BIGINT             NULL
-- :column matrix_flop BIGINT   always 0
-- :column model_flop BIGINT    always 0
-- :column dense_flop BIGINT    always 0
-- :column vector_flop BIGINT   steps times elements
-- :column bytes BIGINT         operands read and results written once
-- :column evidence VARCHAR     shapes
with input as (
    select
        *,
        sizes[coalesce(roles['x'], 0) + 1] as x,
        dtypes[coalesce(roles['x'], 0) + 1] as dtype,
        item_bytes[coalesce(roles['x'], 0) + 1] as x_bytes,
        counts[coalesce(roles['x'], 0) + 1] as x_count,
        read_counts[coalesce(roles['x'], 0) + 1] as x_read_count,
        -- Most ops with an axis have three arguments or more.
        argument_count >= coalesce(roles['with_axis'], 3) as has_axis,
        numbers_of(concrete[roles['dim'] + 1]) as axes,
        -- Outside of training, the statistics of a normalisation are inputs.
        case
            when roles['training'] is null or is_true(concrete[roles['training'] + 1]) then coalesce(roles['steps'], 1)
            when not is_true(concrete[roles['training'] + 1]) then 2
        end as steps,
        coalesce(
            roles['result_bytes'],
            bytes_of_type(concrete[roles['out_dtype'] + 1]),
            if(is_true(concrete[roles['to_float'] + 1]), 4, null),
            if(not floats[coalesce(roles['x'], 0) + 1], roles['integer_bytes'], null),
            item_bytes[coalesce(roles['x'], 0) + 1]
        ) as result_bytes
    from op_shape
    where
        family in ('normalisation', 'softmax', 'reduction')
        -- The maximum or minimum of two tensors is not a reduction.
        and (roles['index_bytes'] is null or sizes[2] is null)
),

-- Bytes of the small tensors of a normalisation: weights, biases, statistics.
small_operand as (
    select
        shape_id,
        sum(count * bytes) as bytes
    from (
        select
            shape_id,
            roles,
            generate_subscripts(counts, 1) - 1 as position,
            unnest(counts) as count,
            unnest(item_bytes) as bytes
        from input
        where family = 'normalisation'
    ) as tensor
    where position not in (coalesce(roles['x'], 0), coalesce(roles['dy'], 0))
    group by shape_id
),

counted_call as (
    select
        input.*,
        coalesce(small_operand.bytes, 0) as small_bytes,
        case
            when roles['keeps'] = 1 then x_count
            when not has_axis or len(axes) = 0 then 1
            when axes is not null then element_count(list_transform(range(1, len(x) + 1), lambda place: if(
                list_contains(axes, place - 1) or list_contains(axes, place - 1 - len(x)), 1, x[place]
            )))
        end as result_count
    from input
    left join small_operand on input.shape_id = small_operand.shape_id
)

select
    shape_id,
    dtype,
    null::bigint as batch,
    whole(x_count) as m,
    if(family = 'reduction', whole(result_count), null) as n,
    null::bigint as k,
    0::bigint as matrix_flop,
    0::bigint as model_flop,
    0::bigint as dense_flop,
    whole(x_count * steps) as vector_flop,
    whole(case family
        when 'reduction'
            then
                x_read_count * x_bytes
                + result_count * (result_bytes + if(has_axis, coalesce(roles['index_bytes'], 0), 0))
        else x_count * ((coalesce(roles['passes'], 2) - 1) * x_bytes + result_bytes) + small_bytes
    end) as bytes,
    'shapes' as evidence
from counted_call
where x is not null
