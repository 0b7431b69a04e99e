-- What each op computes and moves at least, from the shapes of its arguments: FLOP and bytes.
--
-- One row per call of an op that a formula knows; what an op does that none knows is not 0 but has no row. A
-- multiply-add is 2 FLOP. `matrix_flop` are those of matrix products, `vector_flop` of all else. `bytes` are the least
-- traffic: each operand read once and each result written once. Figures up to 9e15 are exact. An op inside another one
-- with a row is part of it (`is_outermost`), so sums take the outermost alone. It is empty where shapes were neither
-- recorded nor captured.
--
-- :reads op_call, op_shape, op, nesting, work_gemm, work_convolution, work_attention, work_elementwise, work_reduction,
--     work_gather, work_rnn, work_list, work_pointers, own_work
-- :column event_id BIGINT       the op
-- :column shape_id BIGINT       the same for all calls of the op with the same arguments
-- :column family VARCHAR        which formula counted: gemm, convolution, attention, pointwise, …
-- :column dtype VARCHAR         type of the operands: fp32, bf16, int64, …; NULL where the trace does not say
-- :column batch BIGINT          products of a batch, images, or sequences times heads; NULL where it has none
-- :column m BIGINT              rows, queries or elements
-- :column n BIGINT              columns, keys, or elements of the result; NULL where it has none
-- :column k BIGINT              what is summed over, or width of a head; NULL where it has none
-- :column matrix_flop BIGINT    multiply-adds of matrix products, times 2; NULL when unknown
-- :column model_flop BIGINT     of these, what the model needs: without what a kernel computes a second time
-- :column dense_flop BIGINT     the same, with causal attention counted in full, as MFU does
-- :column vector_flop BIGINT    other arithmetic; NULL when unknown
-- :column bytes BIGINT          least bytes read and written; NULL when unknown
-- :column evidence VARCHAR      shapes; bound, if some of it is data and this is the most; pointers, if the bytes are
--                               those of all tensors that a generated kernel is given; given, if the compiler that made
--                               it has written its figures into the trace; user, if a query of the user's did;
--                               captured, if the shapes are
--                               those of a pass before the recording that ran the same ops: if its inputs had other
--                               sizes, so has this; likewise captured_bound
-- :column is_outermost BOOLEAN  in no other op with a row
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

-- What the user's own query says counts instead.
shape_work as (
    from own_work
    union all
    select known_work.* from known_work
    anti join own_work on known_work.shape_id = own_work.shape_id
),

-- Calls of generated kernels, with what the compiler says of them: TorchInductor counts the FLOP of products alone.
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
