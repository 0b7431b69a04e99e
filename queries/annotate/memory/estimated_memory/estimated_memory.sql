-- What autograd saves, and what is trained, by the shapes of ops: an estimate, where no allocation was recorded.
--
-- One row per tensor that an op of backward is given of forward (`rules/saved_arguments.csv`): it was alive from the op
-- that made it until then. And one per module, size and type of parameters: as many as gradients of that size are
-- accumulated in a backward pass; their gradients take as much. What is not in it: parameters that are not trained, and
-- what an op of no rule saves, such as a compiled graph. Empty where shapes were not recorded, or memory was.
--
-- :reads saved_tensor, accumulated_gradient, nesting, label
-- :column maker_id BIGINT   the op of forward that made it; of an input, the first that was given it; NULL for
--                           parameters, and likewise what follows but the module
-- :column start_ns BIGINT   start of that op
-- :column end_ns BIGINT     end of the last node that needs it
-- :column step BIGINT       training step that made it
-- :column phase PHASE       phase that did
-- :column module_id BIGINT  the innermost module that did, or whose parameters they are; NULL where none is known
-- :column category VARCHAR  activation, input or parameter
-- :column bytes BIGINT      size; of parameters, of all of the row
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
