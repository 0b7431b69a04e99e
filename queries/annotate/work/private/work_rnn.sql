-- Work of recurrent layers executed as one op (cuDNN, MIOpen, oneDNN).
--
-- For each element of a sequence, each layer and direction multiplies the input and the state with the weights of the
-- gates: 2·T·B·G·H·(I + H), with G = 4 gates for LSTM (mode 2), 3 for GRU (mode 3), 1 for others. I is the width of the
-- input; for later layers, H times the number of directions. A projection adds 2·T·B·H·P. The backward has two products
-- for each. Other operations take about 10 FLOP per state. Packed sequences have all elements in one dimension. Modes:
-- cudnnRNNMode_t and torch's own, both relu 0, tanh 1, LSTM 2, GRU 3.
--
-- :reads op_shape
-- :only_with op_shape where family in ('rnn', 'rnn_backward')
-- :column shape_id BIGINT      the call
-- :column dtype VARCHAR        type of the input
-- :column batch BIGINT         layers times directions
-- :column m BIGINT             elements of all sequences
-- :column n BIGINT             gates times width of the state
-- :column k BIGINT             width of the input
-- :column matrix_flop BIGINT   2 for each multiply-add
-- :column model_flop BIGINT    equal to `matrix_flop`
-- :column dense_flop BIGINT    equal to `matrix_flop`
-- :column vector_flop BIGINT   arithmetic of the gates
-- :column bytes BIGINT         input, weights and result moved once
-- :column evidence VARCHAR     shapes
with layer as (
    select
        *,
        sizes[roles['x'] + 1] as x,
        counts[roles['x'] + 1] as x_count,
        dtypes[roles['x'] + 1] as dtype,
        item_bytes[roles['x'] + 1] as x_bytes,
        case try_cast(concrete[roles['mode'] + 1] as bigint) when 2 then 4 when 3 then 3 when 0 then 1 when 1 then 1 end
            as gates,
        try_cast(concrete[roles['hidden'] + 1] as double) as hidden,
        coalesce(try_cast(concrete[roles['proj'] + 1] as double), 0) as projection,
        if(roles['layers'] is null, 1, try_cast(concrete[roles['layers'] + 1] as double)) as layers,
        if(is_true(concrete[roles['bidirectional'] + 1]), 2, 1) as directions,
        if(family = 'rnn_backward', 2, 1) as passes
    from op_shape
    where family in ('rnn', 'rnn_backward')
),

counted_layer as (
    select
        *,
        x_count / nullif(x[-1], 0) as steps,
        if(projection > 0, projection, hidden) as width,
        gates * hidden * (
            (x[-1] + width) + (layers - 1) * (width * directions + width)
        ) * directions + layers * directions * hidden * projection as weights
    from layer
    where len(x) >= 2
)

select
    shape_id,
    dtype,
    whole(layers * directions) as batch,
    whole(steps) as m,
    whole(gates * hidden) as n,
    whole(x[-1]) as k,
    whole(2 * passes * steps * weights) as matrix_flop,
    matrix_flop as model_flop,
    matrix_flop as dense_flop,
    whole(10 * passes * steps * hidden * layers * directions) as vector_flop,
    whole(passes * x_bytes * (x_count + weights + steps * width * directions)) as bytes,
    'shapes' as evidence
from counted_layer
