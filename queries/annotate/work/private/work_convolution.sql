-- Work of convolutions: forward, transposed, grouped, and the gradients of each.
--
-- Each output element takes one multiply-add per contributing weight: 2·numel(y)·prod(w[1:]), where w[1] is the number
-- of input channels of one group. In a transposed convolution, each input element contributes to the same number of
-- outputs: 2·numel(x)·prod(w[1:]). The gradients of input and weight each take the FLOP of the forward, if requested
-- (`output_mask`). Winograd and FFT kernels do fewer multiplications, which makes rates above the peak possible.
-- Strides and padding are argument values: without recorded values, the work of a forward is unknown. Schemas: torch
-- 2.13, native_functions.yaml.
--
-- :reads op_shape
-- :only_with op_shape where family in ('convolution', 'transposed_convolution', 'convolution_backward')
-- :column shape_id BIGINT      the call
-- :column dtype VARCHAR        type of the input
-- :column batch BIGINT         images
-- :column m BIGINT             NULL
-- :column n BIGINT             NULL
-- :column k BIGINT             NULL
-- :column matrix_flop BIGINT   2 for each multiply-add
-- :column model_flop BIGINT    equal to `matrix_flop`
-- :column dense_flop BIGINT    equal to `matrix_flop`
-- :column vector_flop BIGINT   additions of the bias
-- :column bytes BIGINT         operands read and results written once
-- :column evidence VARCHAR     shapes
with operand as (
    select
        *,
        family = 'convolution_backward' as is_backward,
        sizes[roles['x'] + 1] as x,
        sizes[roles['w'] + 1] as w,
        sizes[roles['dy'] + 1] as dy,
        coalesce(counts[roles['bias'] + 1], 0) > 0 as has_bias,
        dtypes[roles['x'] + 1] as dtype,
        item_bytes[roles['x'] + 1] as x_bytes,
        coalesce(counts[roles['z'] + 1], 0) as z_count,
        numbers_of(concrete[roles['stride'] + 1]) as stride,
        numbers_of(concrete[roles['pad'] + 1]) as pad,
        numbers_of(concrete[roles['dilation'] + 1]) as dilation,
        numbers_of(concrete[roles['output_padding'] + 1]) as output_padding,
        coalesce(try_cast(concrete[roles['groups'] + 1] as bigint), 1) as group_count,
        coalesce(is_true(concrete[roles['transposed'] + 1]), false) or family = 'transposed_convolution'
            as is_transposed,
        list_transform(
            string_split(trim(concrete[roles['mask'] + 1], '[] '), ','), lambda flag: is_true(trim(flag))
        ) as mask
    from op_shape
    where family in ('convolution', 'transposed_convolution', 'convolution_backward')
),

-- Calls with the shape of the result, which is also the shape of the result's gradient.
output as (
    select
        *,
        list_transform(range(1, len(x) - 1), lambda axis: if(
            is_transposed,
            widened_size(
                x[axis + 2], w[axis + 2], of_axis(stride, axis, 1), of_axis(pad, axis, 0), of_axis(dilation, axis, 1),
                of_axis(output_padding, axis, 0)
            ),
            pooled_size(
                x[axis + 2], w[axis + 2], of_axis(stride, axis, 1), of_axis(pad, axis, 0), of_axis(dilation, axis, 1),
                false
            )
        )) as spatial,
        case
            when is_backward then dy
            when len(stride) > 0 then [x[1], if(is_transposed, w[2]::double * group_count, w[1])] || spatial
        end as y
    from operand
    where len(x) >= 3 and len(w) = len(x)
),

counted_call as (
    select
        *,
        counts[roles['x'] + 1] as x_count,
        counts[roles['w'] + 1] as w_count,
        element_count(y) as y_count,
        2 * element_count(if(is_transposed, x, y)) * element_count(w[2:]) as forward_flop,
        if(mask[1], 1, 0) + if(mask[2], 1, 0) as gradient_count
    from output
)

select
    shape_id,
    dtype,
    whole(x[1]) as batch,
    null::bigint as m,
    null::bigint as n,
    null::bigint as k,
    whole(if(is_backward, gradient_count, 1) * forward_flop) as matrix_flop,
    matrix_flop as model_flop,
    matrix_flop as dense_flop,
    whole(case
        when is_backward then if(mask[3], y_count, 0)
        else if(has_bias, y_count, 0) + coalesce(roles['steps'], 0) * y_count
    end) as vector_flop,
    whole(x_bytes * if(
        is_backward,
        gradient_count * (y_count + x_count + w_count) + if(mask[3], y_count + y[2], 0),
        x_count + w_count + y_count + if(has_bias, y[2], 0) + z_count
    )) as bytes,
    'shapes' as evidence
from counted_call
where not is_backward or len(mask) = 3
