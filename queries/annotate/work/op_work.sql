-- What each op computes and moves at least, from the shapes of its arguments: FLOP and bytes.
--
-- One row per call of an op that a formula knows; what an op does that none knows is not 0 but has no row. A
-- multiply-add is 2 FLOP. `matrix_flop` are those of matrix products, `vector_flop` of all else. `bytes` are the least
-- traffic: each operand read once and each result written once. Figures up to 9e15 are exact. An op inside another one
-- with a row is part of it (`is_outermost`), so sums take the outermost alone. It is empty where shapes were neither
-- recorded nor captured.
--
-- :reads op_call, op_shape, nesting, work_gemm, work_convolution, work_attention, work_elementwise, work_reduction,
--     work_gather, work_rnn, work_list, work_pointers
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
--                               those of all tensors that a generated kernel is given; captured, if the shapes are
--                               those of a pass before the recording that ran the same ops: if its inputs had other
--                               sizes, so has this; likewise captured_bound
-- :column is_outermost BOOLEAN  in no other op with a row
with work as (
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
)

select
    op_call.event_id,
    op_call.shape_id,
    op_shape.family,
    work.* exclude (shape_id) replace (
        case
            when not op_call.is_captured then work.evidence
            when work.evidence = 'shapes' then 'captured'
            else 'captured_' || work.evidence
        end as evidence
    ),
    is_outermost(nesting.start_ns, nesting.end_ns, nesting.track_id, nesting.depth) as is_outermost
from op_call
inner join op_shape on op_call.shape_id = op_shape.shape_id
inner join work on op_call.shape_id = work.shape_id
inner join nesting on op_call.event_id = nesting.event_id
where coalesce(work.matrix_flop, work.vector_flop, work.bytes) is not null
