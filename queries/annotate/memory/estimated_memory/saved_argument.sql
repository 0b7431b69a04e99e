-- Saved tensors: arguments of backward ops that come from forward, by the rules of `saved_arguments`.
--
-- In a matrix product, the saved operand is the one that is not the gradient. The gradient is recognised by shape. If
-- both operands have the gradient's shape, it is recognised by order, because autograd computes the gradient of the
-- first operand first. Parameters are excluded: operands with the sizes of a parameter that are the second operand of a
-- product, or that differ from the gradient's sizes.
--
-- :reads op, event, nesting, engine_segment, sized_node, accumulated_gradient, saved_arguments, dtypes
-- :column event_id BIGINT     the backward op
-- :column node_id BIGINT      the engine call
-- :column forward_id BIGINT   the forward op
-- :column position BIGINT     position of the argument, from 0
-- :column origin VARCHAR      argument, for an argument of the forward op; result, for a result of the forward op;
--                             mask, for a dropout's multiplier
-- :column elements DOUBLE     number of elements distinct in memory
-- :column item_bytes BIGINT   bytes per element
with known_call as (
    select
        event.event_id,
        event.name,
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns,
        nesting.depth,
        op.input_dims,
        op.input_types,
        op.input_strides
    from op
    inner join event on op.event_id = event.event_id
    inner join nesting on event.event_id = nesting.event_id
    where op.input_dims is not null and event.name in (select name from saved_arguments)
),

first_gradient as (
    select
        node_id,
        any_value(token) as token,
        any_value(forward_id) as forward_id,
        arg_min(sizes, place) as sizes
    from sized_node
    where forward_id is not null
    group by node_id
),

call_in_node as (
    select
        known_call.*,
        first_gradient.node_id,
        first_gradient.token,
        first_gradient.forward_id,
        first_gradient.sizes as gradient_sizes,
        row_number() over (
            partition by first_gradient.node_id, known_call.name order by known_call.start_ns, known_call.event_id
        ) as place,
        count(*) over (partition by first_gradient.node_id, known_call.name) as calls
    from known_call
    asof inner join engine_segment
        on known_call.track_id = engine_segment.track_id and known_call.start_ns >= engine_segment.start_ns
    inner join first_gradient on engine_segment.call_id = first_gradient.node_id
    where known_call.end_ns > known_call.start_ns
    qualify is_outermost(known_call.start_ns, known_call.end_ns, known_call.track_id, known_call.depth)
),

-- Names of ops in nodes, with the first matching rule.
rule_of_call as (
    select
        name_in_node.name,
        name_in_node.token,
        arg_min(saved_arguments, saved_arguments.position) as rule
    from (select distinct name, token from call_in_node) as name_in_node
    inner join saved_arguments
        on
            name_in_node.name = saved_arguments.name
            and coalesce(saved_arguments.node = name_in_node.token, true)
    group by name_in_node.name, name_in_node.token
),

named_argument as (
    select
        call_in_node.*,
        rule_of_call.rule.inputs = '0 1' as is_product,
        unnest(
            list_transform(
                numbers_of(coalesce(rule_of_call.rule.inputs, '')),
                lambda place: {'place': place, 'is_result': false}
            )
            || list_transform(
                numbers_of(coalesce(rule_of_call.rule.results, '')),
                lambda place: {'place': place, 'is_result': true}
            )
        ) as argument
    from call_in_node
    inner join rule_of_call on call_in_node.name = rule_of_call.name and call_in_node.token = rule_of_call.token
),

sized_argument as (
    select
        named_argument.*,
        element_type.bytes as item_bytes,
        try_cast(input_dims -> argument.place as bigint[]) as sizes,
        try_cast(input_strides -> argument.place as bigint[]) as strides,
        try_cast(input_dims -> 0 as bigint[]) as first_sizes,
        list_sort(sizes) = list_sort(gradient_sizes) as is_like_gradient
    from named_argument
    inner join (select name, bytes_of_dtype(name) as bytes from dtypes) as element_type
        on named_argument.input_types ->> argument.place = element_type.name
),

-- Arguments, with the role in a product. The saved operand is unlike the gradient, or the second if both are like the
-- gradient. It was the second operand of forward if the sum runs over the gradient's columns; for square gradients, the
-- order of the calls decides.
judged_argument as (
    select
        *,
        if(
            is_product,
            not is_like_gradient or (argument.place = 1 and bool_and(is_like_gradient) over of_call),
            place = 1 or name = 'aten::mul'
        ) as is_saved,
        if(
            gradient_sizes[-1] = gradient_sizes[-2],
            place = 1 and calls > 1,
            first_sizes[-1] = gradient_sizes[-1]
        ) as is_second
    from sized_argument
    window of_call as (partition by event_id)
),

-- Products inside a composite dropout, as on the CPU.
dropping_op as (
    select nesting.event_id
    from nesting
    inner join event as dropout on nesting.parent_id = dropout.event_id
    where dropout.name = 'aten::dropout'
)

select
    event_id,
    node_id,
    forward_id,
    argument.place as position,
    case
        when argument.is_result then 'result'
        when forward_id in (select event_id from dropping_op) then 'mask'
        else 'argument'
    end as origin,
    element_count(list_transform(
        range(1, len(sizes) + 1), lambda axis: if(strides[axis] = 0, least(sizes[axis], 1), sizes[axis])
    )) as elements,
    item_bytes
from judged_argument
where
    is_saved
    and elements > 0
    and (
        argument.is_result
        or not if(is_product, is_second, sizes != gradient_sizes)
        or list_sort(sizes) not in (select list_sort(sizes) from accumulated_gradient)
    )
