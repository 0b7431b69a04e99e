-- Estimated memory of saved tensors and trained parameters, from the shapes of ops, for traces without recorded
-- allocations.
--
-- One row per tensor passed from forward to a backward op (`rules/saved_arguments.csv`): the tensor was alive from the
-- op that made it until the backward op. One row per module for its parameters, estimated as the most gradients of each
-- size and type accumulated in one backward pass. The gradients take the same number of bytes again. Not included:
-- parameters that are not trained, and tensors saved by ops without a rule, like a compiled graph. Empty if the trace
-- has recorded memory, or no shapes.
--
-- :reads saved_tensor, accumulated_gradient, nesting, label
-- :column maker_id BIGINT   the forward op that made the tensor; for an input, the first op to use it; NULL for
--                           parameters, as are start, end, step and phase
-- :column start_ns BIGINT   start of the op
-- :column end_ns BIGINT     end of the last node that needs the tensor
-- :column step STEP         of the op
-- :column phase PHASE       of the op
-- :column module_id BIGINT  the innermost module of the op, or the owner of the parameters; NULL if unknown
-- :column category VARCHAR  activation, input or parameter
-- :column bytes BIGINT      size; for parameters, the size of all together
with gradient_of_pass as (
    select
        track_id,
        pass_number,
        module_id,
        sizes,
        item_bytes,
        count(*) as parameters
    from accumulated_gradient
    group by track_id, pass_number, module_id, sizes, item_bytes
),

parameter as (
    select
        module_id,
        (max(parameters) * element_count(sizes) * item_bytes)::bigint as bytes
    from gradient_of_pass
    group by module_id, sizes, item_bytes
),

row_of_memory as (
    select
        saved_tensor.event_id as maker_id,
        nesting.start_ns,
        saved_tensor.end_ns,
        label.step,
        label.phase,
        label.module_id,
        if(saved_tensor.is_input, 'input', 'activation') as category,
        saved_tensor.bytes
    from saved_tensor
    inner join nesting on saved_tensor.event_id = nesting.event_id
    left join label on saved_tensor.event_id = label.event_id
    union all by name
    select
        module_id,
        'parameter' as category,
        sum(bytes)::bigint as bytes
    from parameter
    group by module_id
)

select * from row_of_memory
order by start_ns nulls first, maker_id, category, bytes, module_id
