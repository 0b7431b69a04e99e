-- Ops of PyTorch by name (aten/src/ATen/native/native_functions.yaml). Advice, views and answers ask these macros,
-- because a run has no tables of rules. Marks of PyTorch among names, such as steps, are macros of `marks`.

-- Whether an op reads one value back to the CPU.
create or replace macro is_value_read(op) as
op in ('aten::item', 'aten::is_nonzero', 'aten::_local_scalar_dense');

-- Whether an op copies a tensor to another device or type.
create or replace macro is_copy_op(op) as
op in ('aten::to', 'aten::_to_copy', 'aten::copy_');

-- Whether an op takes a slice of a tensor.
create or replace macro is_slice_op(op) as
op in ('aten::select', 'aten::slice', 'aten::narrow');

-- Whether an op only gives a tensor another shape, without a copy if possible.
create or replace macro is_shape_op(op) as
regexp_matches(op, '^aten::(view|reshape|flatten|transpose|permute|t|unsqueeze|squeeze|detach)$');

-- Whether an op copies, joins, cuts or describes tensors, and computes nothing.
create or replace macro is_data_movement(op) as
regexp_matches(
    op,
    '^aten::(cat|view|view_as|reshape|narrow|slice|as_strided|copy_|detach|empty\w*|alias|contiguous'
    || '|flatten_dense_tensors|unflatten_dense_tensors|result_type|set_)$'
);

-- Whether an op multiplies two matrices, or two batches of matrices.
create or replace macro is_matrix_product(op) as
op in ('aten::mm', 'aten::addmm') or is_batched_product(op);

-- Whether an op multiplies two batches of matrices.
create or replace macro is_batched_product(op) as
op in ('aten::bmm', 'aten::baddbmm');

-- Whether the first argument of a matrix product is added to the product, so that the factors are the next two.
create or replace macro adds_first_argument(op) as
op in ('aten::addmm', 'aten::baddbmm');

-- Whether an op is a softmax or its gradient.
create or replace macro is_softmax_op(op) as
op in ('aten::_softmax', 'aten::_softmax_backward_data', 'aten::_masked_softmax');

-- Whether an op may change the scores of attention between the products: scaling, masks, dropout, casts.
create or replace macro is_op_on_scores(op) as
op in (
    'aten::add', 'aten::add_', 'aten::sub', 'aten::mul', 'aten::mul_', 'aten::div', 'aten::div_', 'aten::copy_',
    'aten::masked_fill', 'aten::masked_fill_', 'aten::where', 'aten::fill_', 'aten::triu', 'aten::tril',
    'aten::native_dropout', 'aten::native_dropout_backward', 'aten::bernoulli_', 'aten::eq',
    'aten::clamp', 'aten::clamp_', 'aten::maximum', 'aten::max', 'aten::nan_to_num', 'aten::tanh'
);

-- Whether an op is a convolution, at any level: `conv2d`, `cudnn_convolution`.
create or replace macro is_convolution_op(op) as
regexp_matches(op, '^aten::(conv[123]d|\w*convolution)$');

-- Whether an op is a batch norm of any library.
create or replace macro is_batch_norm_op(op) as
regexp_matches(op, '^aten::(\w+_)?batch_norm');

-- Whether an op is a ReLU.
create or replace macro is_relu_op(op) as
op in ('aten::relu', 'aten::relu_');

-- Whether an op is a max pooling.
create or replace macro is_max_pool_op(op) as
starts_with(op, 'aten::max_pool');

-- Whether an op multiplies its input by weights.
create or replace macro is_weighted_op(op) as
regexp_matches(op, '^aten::(conv|_?convolution|linear|addmm|mm$)');

-- Whether an op takes much time to compute again: products, convolutions and attention.
create or replace macro is_costly_op(op) as
regexp_matches(op, '^aten::(addmm|mm|bmm|baddbmm|convolution|_?scaled_dot_product)');

-- Whether an op draws random numbers.
create or replace macro is_random_op(op) as
regexp_matches(op, '^aten::(native_dropout|bernoulli|rand|normal|_fused_dropout)');

-- Whether an op is arithmetic on one tensor, of which optimizers make updates.
create or replace macro is_update_arithmetic(op) as
regexp_matches(op, '^aten::(add|sub|mul|div|addcmul|addcdiv|lerp)_?$');

-- Whether an op computes the norm of one tensor.
create or replace macro is_norm_op(op) as
op in ('aten::norm', 'aten::linalg_vector_norm');

-- Whether an op computes on a list of tensors at once.
create or replace macro is_foreach_op(op) as
contains(op, '_foreach_');

-- Whether an op computes on a list of tensors at once, in one step (`_foreach_`) or as a whole optimizer (`_fused_`).
create or replace macro is_list_op(op) as
regexp_matches(op, '::_(foreach|fused)_');

-- Whether an op, of PyTorch or of a library (Apex, Transformer Engine), updates many parameters at once.
create or replace macro is_update_of_list(op) as
regexp_matches(op, '_foreach_|_fused_|fused_adam|multi_tensor|Fused');

-- Whether an op writes zeros, or a value, into a tensor or a list of tensors.
create or replace macro is_fill_op(op) as
regexp_matches(op, 'zero_|fill_') or is_foreach_op(op);
