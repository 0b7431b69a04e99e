-- Work of normalisation, softmax and reductions: ops that read an input once or more, and need all of a row of it.
--
-- The rules give FLOP per element (`steps`) and how often as many bytes as the input's are moved (`passes`): layer norm
-- 5 and 2, softmax 5 and 2, and their gradients. Least traffic: an input that is read twice because it does not fit
-- into a cache counts once. Weights, biases and statistics of channels are read or written once (`small` tensors: all
-- but the largest). Reductions write what is left of the shape, and an index beside each value where `index_bytes` says
-- so. FLOP per element: fvcore, flop_count (batch norm 2 in evaluation, layer norm 5); a convention.
--
-- :reads op_shape
-- :column shape_id BIGINT      the call
-- :column dtype VARCHAR        type of the input
-- :column batch BIGINT         NULL
-- :column m BIGINT             elements of the input
-- :column n BIGINT             elements of the result of a reduction; NULL for others
-- :column k BIGINT             NULL
-- :column matrix_flop BIGINT   0
-- :column model_flop BIGINT    0
-- :column dense_flop BIGINT    0
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
        -- With an axis, they have three arguments or more.
        case when argument_count >= 3 then numbers_of(concrete[roles['dim'] + 1]) else []::bigint[] end as axes
    from op_shape
    where family in ('normalisation', 'softmax', 'reduction')
),

-- Bytes of the small tensors of a normalisation: weights, biases, statistics.
small_operand as (
    select
        shape_id,
        sum(count * bytes) as bytes
    from (
        select
            shape_id,
            x_count,
            unnest(counts) as count,
            unnest(item_bytes) as bytes
        from input
        where family = 'normalisation'
    ) as tensor
    where count < x_count
    group by shape_id
),

reduced as (
    select
        input.*,
        coalesce(small_operand.bytes, 0) as small_bytes,
        case
            when roles['keeps'] = 1 then x_count
            when coalesce(len(axes), 0) = 0 then 1
            else element_count(list_transform(range(1, len(x) + 1), lambda place: if(
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
    whole(x_count * coalesce(roles['steps'], 1)) as vector_flop,
    whole(case family
        when 'reduction'
            then
                x_read_count * x_bytes
                + result_count * (coalesce(roles['result_bytes'], x_bytes) + coalesce(roles['index_bytes'], 0))
        else x_count * x_bytes * coalesce(roles['passes'], 2) + small_bytes
    end) as bytes,
    'shapes' as evidence
from reduced
where x is not null
