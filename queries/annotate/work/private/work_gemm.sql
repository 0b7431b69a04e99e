-- Work of matrix products: two matrices, batches of matrices, groups of rows, and matrix times vector.
--
-- 2MNK each. A bias, or a third matrix with a factor other than 0, adds one per element of the result. Packed FP4 has
-- two values per element; K therefore counts double. Grouped products assign rows to matrices at run time: each row is
-- multiplied once, and the bytes are at most those of all matrices. Schemas: torch 2.13, native_functions.yaml.
--
-- :reads op_shape
-- :only_with op_shape where family in ('gemm', 'grouped_gemm', 'linear')
-- :column shape_id BIGINT      the call
-- :column dtype VARCHAR        type of the first operand
-- :column batch BIGINT         number of products
-- :column m BIGINT             rows of the first operand
-- :column n BIGINT             columns of the second operand
-- :column k BIGINT             length of the sum
-- :column matrix_flop BIGINT   2 for each multiply-add of the product
-- :column model_flop BIGINT    equal to `matrix_flop`
-- :column dense_flop BIGINT    equal to `matrix_flop`
-- :column vector_flop BIGINT   additions of the bias or third matrix
-- :column bytes BIGINT         operands read and result written once
-- :column evidence VARCHAR     shapes; bound, if the bytes may be fewer
with operand as (
    select
        *,
        sizes[roles['a'] + 1] as a,
        sizes[roles['b'] + 1] as b,
        coalesce(read_counts[roles['c'] + 1], 0) as c_count,
        dtypes[roles['a'] + 1] as dtype,
        if(dtypes[roles['a'] + 1] = 'fp4', 2, 1) as packed,
        coalesce(try_cast(concrete[roles['beta'] + 1] as double), 1) as beta
    from op_shape
    where family in ('gemm', 'grouped_gemm', 'linear')
),

product as (
    select
        *,
        if(len(a) = 3 and (family = 'gemm' or len(b) = 3), a[1], 1) as batch,
        case
            when family = 'linear' then counts[roles['a'] + 1] / nullif(a[-1], 0)
            when len(a) = 1 then 1
            else a[-2]
        end as m,
        a[-1] as k,
        case
            when family = 'linear' then b[1]
            when len(b) = 1 then 1
            else b[-1]
        end as n,
        case
            when family = 'linear' then b[-1]
            when len(b) = 1 then b[1]
            else b[-2]
        end as summed,
        c_count > 0 and beta != 0 as is_added
    from operand
    where
        (family = 'linear' and len(a) > 0 and len(b) = 2)
        or (family = 'grouped_gemm' and len(a) in (2, 3) and len(b) in (2, 3))
        -- Two vectors, a matrix and a vector, two matrices, or two batches with the same number of matrices.
        or (family = 'gemm' and len(a) in (1, 2) and len(b) between 1 and len(a))
        or (family = 'gemm' and len(a) = 3 and len(b) = 3 and a[1] = b[1])
),

counted_product as (
    select
        *,
        2 * batch::double * m * n * k * packed as flop,
        -- Groups along the summed axis have a result each.
        m::double * n * case
            when coalesce(roles['is_sum'], 0) = 1 then 1
            when family = 'grouped_gemm' and len(a) = 2 and len(b) = 2 then counts[roles['offsets'] + 1]
            else batch
        end as result_count,
        coalesce(
            roles['result_bytes'], bytes_of_type(concrete[roles['out_dtype'] + 1]), item_bytes[roles['a'] + 1]
        ) as result_bytes
    from product
    -- If the two lengths differ, the arguments are not those of the rule.
    where k = summed
)

select
    shape_id,
    dtype,
    whole(batch) as batch,
    whole(m) as m,
    whole(n) as n,
    whole(k::double * packed) as k,
    whole(flop) as matrix_flop,
    whole(flop) as model_flop,
    whole(flop) as dense_flop,
    whole(if(is_added, result_count, 0)) as vector_flop,
    whole(
        read_counts[roles['a'] + 1] * item_bytes[roles['a'] + 1]
        + read_counts[roles['b'] + 1] * item_bytes[roles['b'] + 1]
        + result_count * result_bytes
        + if(is_added, c_count * item_bytes[roles['c'] + 1], 0)
        + coalesce(read_counts[roles['scale_a'] + 1] * item_bytes[roles['scale_a'] + 1], 0)
        + coalesce(read_counts[roles['scale_b'] + 1] * item_bytes[roles['scale_b'] + 1], 0)
    ) as bytes,
    if(family = 'grouped_gemm' and len(a) < len(b), 'bound', 'shapes') as evidence
from counted_product
