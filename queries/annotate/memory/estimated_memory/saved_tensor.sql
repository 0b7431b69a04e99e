-- Tensors that autograd saves, each once: what made it, and until when a node needs it.
--
-- Tensors have no names. What goes into an op is the latest result of as many elements on its thread, if autograd still
-- waits for its gradient; of several that one node is given, the latest ones. An input of the model has no such result:
-- all of as many elements in a step are one.
--
-- :reads saved_argument, tensor_maker, nesting, engine_call, label
-- :column event_id BIGINT     the op of forward that made it; of an input, the first that was given it
-- :column is_input BOOLEAN    no op of the model made it
-- :column bytes BIGINT        its size
-- :column end_ns BIGINT       end of the last node that needs it
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

-- What went into an op, with the number of the latest result that it can be.
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
    -- Results: that which gets a gradient, or one that only backward reads.
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
