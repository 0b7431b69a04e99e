-- Tensors saved by autograd, each once, with the op that made the tensor and the end of the last node that needs it.
--
-- Tensors have no names. The argument of an op is taken to be the latest result on its thread with the same number of
-- elements, if its gradient is still pending. Several equal arguments of one node are the latest results in sequence.
-- An input of the model has no matching result; all inputs of a step with the same number of elements count as one.
--
-- :reads saved_argument, tensor_maker, nesting, engine_call, label
-- :column event_id BIGINT     the forward op that made the tensor; for an input, the first op to use it
-- :column is_input BOOLEAN    no op of the model made the tensor
-- :column bytes BIGINT        size
-- :column end_ns BIGINT       end of the last node that needs the tensor
with timed_argument as (
    select
        saved_argument.*,
        nesting.track_id,
        nesting.start_ns,
        engine_call.end_ns,
        label.step,
        row_number() over (
            partition by
                saved_argument.node_id, saved_argument.origin, saved_argument.elements, saved_argument.item_bytes
            order by saved_argument.event_id, saved_argument.position
        ) - 1 as place_of_equal
    from saved_argument
    inner join nesting on saved_argument.forward_id = nesting.event_id
    inner join engine_call on saved_argument.node_id = engine_call.event_id
    left join label on saved_argument.forward_id = label.event_id
),

-- Arguments of forward ops, with the number of the latest possible result.
numbered_argument as (
    select
        timed_argument.*,
        tensor_maker.number - timed_argument.place_of_equal as number
    from timed_argument
    asof left join tensor_maker
        on
            timed_argument.track_id = tensor_maker.track_id
            and timed_argument.elements = tensor_maker.elements
            and timed_argument.item_bytes = tensor_maker.item_bytes
            and timed_argument.start_ns > tensor_maker.start_ns
    where timed_argument.origin = 'argument'
),

made_argument as (
    select
        numbered_argument.* exclude (number, place_of_equal),
        tensor_maker.forward_id as maker_id,
        tensor_maker.place
    from numbered_argument
    left join tensor_maker
        on
            numbered_argument.track_id = tensor_maker.track_id
            and numbered_argument.elements = tensor_maker.elements
            and numbered_argument.item_bytes = tensor_maker.item_bytes
            and numbered_argument.number = tensor_maker.number
            and numbered_argument.start_ns < tensor_maker.node_ns
    union all by name
    -- Results: a tensor with a gradient, or a tensor used only in backward.
    select
        timed_argument.* exclude (place_of_equal),
        timed_argument.forward_id as maker_id,
        coalesce(tensor_maker.place, -1 - timed_argument.position) as place
    from timed_argument
    left join tensor_maker
        on
            timed_argument.origin = 'result'
            and timed_argument.forward_id = tensor_maker.forward_id
            and timed_argument.elements = tensor_maker.elements
            and timed_argument.item_bytes = tensor_maker.item_bytes
            and timed_argument.place_of_equal = tensor_maker.place
    where timed_argument.origin != 'argument'
)

select
    coalesce(maker_id, arg_min(forward_id, start_ns)) as event_id,
    maker_id is null as is_input,
    any_value(elements * item_bytes)::bigint as bytes,
    max(end_ns) as end_ns
from made_argument
group by maker_id, place, if(maker_id is null, step, null), elements, item_bytes
