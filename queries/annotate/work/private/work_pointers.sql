-- Bytes of kernels that torch.compile generates with Triton, by the tensors that they are given.
--
-- The call of a generated kernel has all tensors that it reads or writes as arguments. Each is moved once: at least if
-- it is read, and at most if only some rows of it are. FLOP are not known by the arguments.
-- Where the compiler has written its own figures into the trace, these count (`op_work`).
--
-- :reads op_shape
-- :only_with op_shape where family = 'pointers'
-- :column shape_id BIGINT      the call
-- :column dtype VARCHAR        type of the largest tensor
-- :column batch BIGINT         NULL
-- :column m BIGINT             elements of the largest tensor
-- :column n BIGINT             NULL
-- :column k BIGINT             NULL
-- :column matrix_flop BIGINT   NULL; 0 for kernels that by their name hold no matrix product
-- :column model_flop BIGINT    the same
-- :column dense_flop BIGINT    the same
-- :column vector_flop BIGINT   NULL
-- :column bytes BIGINT         of all tensors
-- :column evidence VARCHAR     pointers
with tensor as (
    select
        shape_id,
        name,
        unnest(dtypes) as dtype,
        unnest(item_bytes) as item_bytes,
        unnest(read_counts) as read_count
    from op_shape
    where family = 'pointers'
)

select
    shape_id,
    arg_max(dtype, read_count) as dtype,
    null::bigint as batch,
    whole(max(read_count)) as m,
    null::bigint as n,
    null::bigint as k,
    if(regexp_matches(any_value(name), '^triton_(poi|red|per|for)_'), 0, null)::bigint as matrix_flop,
    matrix_flop as model_flop,
    matrix_flop as dense_flop,
    null::bigint as vector_flop,
    whole(if(bool_and(dtype is not null), sum(read_count * item_bytes), null)) as bytes,
    'pointers' as evidence
from tensor
where read_count is not null
group by shape_id
