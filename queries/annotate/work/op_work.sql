-- Work of each op, from the shapes of its arguments: FLOP, and the least bytes moved.
--
-- One row per op call with a known formula. An op without a formula has no row, rather than 0. A multiply-add is 2
-- FLOP. `matrix_flop` counts matrix products, and `vector_flop` other arithmetic. `bytes` is the least traffic: each
-- operand read once and each result written once. Numbers up to 9e15 are exact. An op inside another op with a row is
-- part of the outer op (`is_outermost`); sum only the outermost ops. The table is empty if shapes were neither recorded
-- nor captured.
--
-- :reads op_call, op_shape, op, nesting, work_gemm, work_convolution, work_attention, work_elementwise, work_reduction,
--     work_gather, work_rnn, work_list, work_pointers, own_work
-- :column event_id BIGINT       the op
-- :column shape_id BIGINT       equal for all calls of the op with the same arguments
-- :column family VARCHAR        family of the formula: gemm, convolution, attention, pointwise, …
-- :column dtype VARCHAR         type of the operands: fp32, bf16, int64, …; NULL if not in the trace
-- :column batch BIGINT          products of a batch, images, or sequences times heads; NULL without a batch
-- :column m BIGINT              rows, queries or elements
-- :column n BIGINT              columns, keys, or elements of the result; NULL if not defined
-- :column k BIGINT              length of the sum, or width of a head; NULL if not defined
-- :column matrix_flop BIGINT    multiply-adds of matrix products, times 2; NULL if unknown
-- :column model_flop BIGINT     part of `matrix_flop` needed by the model: without repeated computations of a kernel
-- :column dense_flop BIGINT     `model_flop` with causal attention counted in full, as in MFU
-- :column vector_flop BIGINT    other arithmetic; NULL if unknown
-- :column bytes BIGINT          least bytes read and written; NULL if unknown
-- :column evidence VARCHAR      shapes; bound, if some of it depends on data and this is the maximum; pointers, for the
--                               bytes of all tensors passed to a generated kernel; given, for numbers written to the
--                               trace by the kernel's compiler; user, for numbers of a user's query; captured, for
--                               shapes from a pass before the recording with the same ops (wrong if the inputs had
--                               other sizes); also captured_bound
-- :column is_outermost BOOLEAN  not inside another op with a row
with known_work as (
    from work_gemm
    union all
    from work_convolution
    union all
    from work_attention
    union all
    from work_elementwise
    union all
    from work_reduction
    union all
    from work_gather
    union all
    from work_rnn
    union all
    from work_list
    union all
    from work_pointers
),

-- Work by shape. The user's own query takes precedence.
shape_work as (
    from own_work
    union all
    select known_work.* from known_work
    anti join own_work on known_work.shape_id = own_work.shape_id
),

-- Calls of generated kernels, with the compiler's numbers: TorchInductor counts only the FLOP of products.
generated_call as (
    select
        op_call.event_id,
        positive(whole(round(op.kernel_flop))) as flop,
        positive(whole(round(1e9 * op.kernel_gb))) as bytes
    from op_call
    inner join op_shape on op_call.shape_id = op_shape.shape_id and op_shape.family = 'pointers'
    inner join op on op_call.event_id = op.event_id
    where coalesce(flop, bytes) is not null
),

work as (
    select
        op_call.event_id,
        op_call.is_captured,
        shape_work.* replace (
            coalesce(generated_call.flop, shape_work.matrix_flop) as matrix_flop,
            coalesce(generated_call.flop, shape_work.model_flop) as model_flop,
            coalesce(generated_call.flop, shape_work.dense_flop) as dense_flop,
            coalesce(generated_call.bytes, shape_work.bytes) as bytes,
            if(generated_call.event_id is null, shape_work.evidence, 'given') as evidence
        )
    from op_call
    inner join shape_work on op_call.shape_id = shape_work.shape_id
    left join generated_call on op_call.event_id = generated_call.event_id
)

select
    work.event_id,
    work.shape_id,
    op_shape.family,
    work.* exclude (event_id, shape_id, is_captured) replace (
        case
            when not work.is_captured then work.evidence
            when work.evidence = 'shapes' then 'captured'
            else 'captured_' || work.evidence
        end as evidence
    ),
    is_outermost(nesting.start_ns, nesting.end_ns, nesting.track_id, nesting.depth) as is_outermost
from work
inner join op_shape on work.shape_id = op_shape.shape_id
inner join nesting on work.event_id = nesting.event_id
where coalesce(work.matrix_flop, work.vector_flop, work.bytes) is not null
