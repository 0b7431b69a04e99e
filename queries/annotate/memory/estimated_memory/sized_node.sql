-- Incoming gradients of autograd nodes. Each has the shape of a result of the forward op.
--
-- :reads node, op, engine_segment, engine_call, dtypes
-- :column node_id BIGINT      the engine call
-- :column token VARCHAR       name of the node, as in `engine_call`
-- :column forward_id BIGINT   the forward op
-- :column place BIGINT        position among the op's results, from 0
-- :column sizes BIGINT[]      sizes of the gradient
-- :column item_bytes BIGINT   bytes per element
-- :column start_ns BIGINT     start of the engine call
-- :column end_ns BIGINT       end of the engine call
with node_in_call as (
    select
        node.event_id,
        engine_segment.call_id
    from node
    asof inner join engine_segment
        on node.track_id = engine_segment.track_id and node.start_ns >= engine_segment.start_ns
),

given_gradient as (
    select
        node_in_call.call_id,
        json_extract(op.input_dims, '$[*]') as dims,
        json_extract_string(op.input_types, '$[*]') as types,
        generate_subscripts(dims, 1) as position
    from node_in_call
    inner join op on node_in_call.event_id = op.event_id
    where op.input_dims is not null
)

select
    engine_call.event_id as node_id,
    engine_call.token,
    engine_call.forward_id,
    given_gradient.position - 1 as place,
    try_cast(given_gradient.dims[given_gradient.position] as bigint[]) as sizes,
    element_type.bytes as item_bytes,
    engine_call.start_ns,
    engine_call.end_ns
from given_gradient
inner join engine_call on given_gradient.call_id = engine_call.event_id
inner join (select name, bytes_of_dtype(name) as bytes from dtypes) as element_type
    on given_gradient.types[given_gradient.position] = element_type.name
where element_count(try_cast(given_gradient.dims[given_gradient.position] as bigint[])) >= 0
