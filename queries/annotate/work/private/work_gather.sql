-- Work of ops that move selected rows or elements, and of pooling.
--
-- Only the selected rows of a table are read, each once: as many rows as there are indices, but at most the table's
-- rows. One row is written per index. The gradient of an embedding writes the whole table of gradients. `gather` and
-- `scatter` move one element per index (`moves`: number of reads and writes of the element); a scatter that is not in
-- place copies the tensor first (`copies`). A classification loss reads one element per index, and its gradient writes
-- all elements. Pooling reads the input and writes the result, with an 8-byte index per element if the positions of the
-- maxima are kept.
--
-- :reads op_shape
-- :only_with op_shape where family in (
--     'embedding', 'embedding_backward', 'index_select', 'gather', 'loss', 'loss_backward', 'pooling',
--     'pooling_backward')
-- :column shape_id BIGINT      the call
-- :column dtype VARCHAR        type of the table or input
-- :column batch BIGINT         NULL
-- :column m BIGINT             indices, or elements of the input
-- :column n BIGINT             elements of a row, or of the result
-- :column k BIGINT             NULL
-- :column matrix_flop BIGINT   always 0
-- :column model_flop BIGINT    always 0
-- :column dense_flop BIGINT    always 0
-- :column vector_flop BIGINT   additions and comparisons
-- :column bytes BIGINT         bytes read and written, each counted once
-- :column evidence VARCHAR     shapes
with operand as (
    select
        *,
        sizes[roles['x'] + 1] as x,
        dtypes[roles['x'] + 1] as dtype,
        item_bytes[roles['x'] + 1] as x_bytes,
        counts[roles['x'] + 1] as x_count,
        counts[roles['index'] + 1] as index_count,
        read_counts[roles['index'] + 1] * item_bytes[roles['index'] + 1] as index_bytes,
        -- Counted from the end, if negative.
        try_cast(concrete[roles['dim'] + 1] as tinyint)::bigint as axis,
        list_transform(
            range(1, coalesce(roles['axes'], 0) + 1),
            lambda place: of_axis(numbers_of(concrete[roles['kernel'] + 1]), place, null)
        ) as kernel,
        numbers_of(concrete[roles['stride'] + 1]) as stride,
        numbers_of(concrete[roles['pad'] + 1]) as pad,
        numbers_of(concrete[roles['dilation'] + 1]) as dilation,
        is_true(concrete[roles['ceil'] + 1]) as is_ceiled,
        counts[roles['dy'] + 1] as dy_count
    from op_shape
    where family in (
        'embedding', 'embedding_backward', 'index_select', 'gather', 'loss', 'loss_backward', 'pooling',
        'pooling_backward'
    )
),

-- Pooling: the spatial axes are the last axes, as many as the kernel has. A macro copies its argument to every use; the
-- sizes are therefore a separate column, counted later.
window_of_pooling as (
    select
        *,
        list_transform(
            range(1, len(kernel) + 1),
            lambda place: {
                'size': x[len(x) - len(kernel) + place],
                'kernel': kernel[place],
                'stride': of_axis(if(len(stride) = 0, kernel, stride), place, 1),
                'pad': of_axis(pad, place, 0),
                'dilation': of_axis(dilation, place, 1)
            }
        ) as windows
    from operand
),

sized_call as (
    select
        *,
        case
            when len(x) > len(kernel)
                then list_slice(x, 1, len(x) - len(kernel)) || list_transform(
                    windows,
                    lambda each: pooled_size(
                        each.size, each.kernel, each.stride, each.pad, each.dilation, is_ceiled
                    )
                )
        end as pooled_sizes
    from window_of_pooling
),

counted_call as (
    select
        *,
        element_count(pooled_sizes) as pooled_count,
        x_count / nullif(x[if(axis < 0, axis, axis + 1)], 0) as row_count,
        -- Number of rows, or elements, that an index may select.
        case family when 'embedding' then x[1] when 'index_select' then x[if(axis < 0, axis, axis + 1)] end as rows
    from sized_call
)

select
    shape_id,
    dtype,
    null::bigint as batch,
    whole(coalesce(index_count, x_count)) as m,
    whole(case family
        when 'embedding' then x[2]
        when 'embedding_backward' then x[-1]
        when 'index_select' then row_count
        when 'pooling' then pooled_count
    end) as n,
    null::bigint as k,
    0::bigint as matrix_flop,
    0::bigint as model_flop,
    0::bigint as dense_flop,
    whole(case family
        when 'embedding_backward' then x_count
        when 'gather' then if(name like '%\_add%' escape '\', index_count, 0)
        when 'loss' then index_count
        when 'loss_backward' then index_count
        when 'pooling' then pooled_count * list_product(kernel)
        when 'pooling_backward' then dy_count
        else 0
    end) as vector_flop,
    whole(case family
        when 'embedding' then index_bytes + (least(index_count, rows) + index_count) * x[2] * x_bytes
        when 'embedding_backward'
            then index_bytes + (x_count + x[-1] * try_cast(concrete[roles['rows'] + 1] as double)) * x_bytes
        when 'index_select' then index_bytes + (least(index_count, rows) + index_count) * row_count * x_bytes
        when 'gather'
            then
                index_bytes + index_count * coalesce(roles['moves'], 2) * x_bytes
                + if(roles['copies'] = 1 and not in_place, 2 * x_count * x_bytes, 0)
        when 'loss' then index_bytes + index_count * x_bytes
        when 'loss_backward' then index_bytes + x_count * x_bytes
        when 'pooling' then x_count * x_bytes + pooled_count * (x_bytes + coalesce(roles['index_bytes'], 0))
        when 'pooling_backward'
            then x_count * x_bytes + dy_count * (x_bytes + coalesce(roles['index_bytes'], 0))
    end) as bytes,
    'shapes' as evidence
from counted_call
where x is not null
