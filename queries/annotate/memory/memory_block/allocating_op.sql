-- Outermost library ops, as owners of allocations. Autograd nodes do not count as enclosing ops.
--
-- Library ops have a namespace, as `aten::conv2d`. Regions, like a compiled graph or DDP's forward, have none.
--
-- :reads cpu_span, nesting, event, name_class, op_signatures, launch
-- :column event_id BIGINT       the op
-- :column track_id BIGINT       thread
-- :column start_ns BIGINT       start
-- :column end_ns BIGINT         end
-- :column is_matrix_op BOOLEAN  a matrix product, convolution, attention or recurrent layer
-- :column copies_in BOOLEAN     the op copies from the host to a GPU
-- :column communicates BOOLEAN  the op communicates with other ranks
with library_op as (
    select
        cpu_span.event_id,
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns,
        nesting.depth,
        coalesce(name_class.bucket = 'communication', false) as communicates
    from cpu_span
    inner join nesting on cpu_span.event_id = nesting.event_id
    inner join event on cpu_span.event_id = event.event_id
    left join name_class on cpu_span.class_id = name_class.class_id
    where
        cpu_span.is_op
        and (contains(event.name, '::') or coalesce(name_class.bucket = 'communication', false))
        and not coalesce(name_class.is_node, false)
        and nesting.end_ns > nesting.start_ns
    qualify is_outermost(nesting.start_ns, nesting.end_ns, nesting.track_id, nesting.depth)
),

-- Calls that copy from the host to a GPU.
copy_call as (
    select
        nesting.track_id,
        nesting.start_ns
    from launch
    inner join event on launch.event_id = event.event_id
    inner join nesting on launch.runtime_id = nesting.event_id
    where event.category = 'gpu_memcpy' and is_copy_to_device(event.name)
),

copying_op as (
    select distinct library_op.event_id
    from copy_call
    asof inner join library_op
        on copy_call.track_id = library_op.track_id and copy_call.start_ns >= library_op.start_ns
    where copy_call.start_ns < library_op.end_ns
),

-- Ops that compute matrix products, directly or in an inner op.
matrix_call as (
    select
        nesting.track_id,
        nesting.start_ns
    from nesting
    inner join event on nesting.event_id = event.event_id
    inner join op_signatures on event.name = op_signatures.name
    where
        op_signatures.family in (
            'gemm', 'grouped_gemm', 'linear', 'convolution', 'transposed_convolution', 'convolution_backward',
            'attention', 'attention_backward', 'rnn', 'rnn_backward'
        )
),

matrix_op as (
    select distinct library_op.event_id
    from matrix_call
    asof inner join library_op
        on matrix_call.track_id = library_op.track_id and matrix_call.start_ns >= library_op.start_ns
    where matrix_call.start_ns < library_op.end_ns
)

select
    library_op.event_id,
    library_op.track_id,
    library_op.start_ns,
    library_op.end_ns,
    matrix_op.event_id is not null as is_matrix_op,
    copying_op.event_id is not null as copies_in,
    library_op.communicates
from library_op
left join matrix_op on library_op.event_id = matrix_op.event_id
left join copying_op on library_op.event_id = copying_op.event_id
