-- Gradients accumulated by backward passes. Trained parameters have the same number and sizes.
--
-- A step may have several passes, and each parameter then has several gradients. A pass begins with a node whose
-- forward op began after the previous nodes.
--
-- :reads nesting, op, event, engine_call, dtypes, label
-- :column pass_number BIGINT  number of the pass on the thread
-- :column track_id BIGINT     the thread
-- :column module_id BIGINT    the gradient's module; NULL if unknown
-- :column sizes BIGINT[]      sizes of the gradient
-- :column item_bytes BIGINT   bytes per element
with called_node as (
    select
        engine_call.track_id,
        engine_call.start_ns,
        engine_call.end_ns,
        event.start_ns as forward_ns
    from engine_call
    inner join event on engine_call.forward_id = event.event_id
),

first_node as (
    select
        track_id,
        start_ns
    from called_node
    qualify coalesce(forward_ns >= max(end_ns) over (
        partition by track_id order by start_ns rows between unbounded preceding and 1 preceding
    ), true)
),

numbered_pass as (
    select
        *,
        row_number() over (partition by track_id order by start_ns) as pass_number
    from first_node
),

accumulation_node as (
    select
        nesting.track_id,
        nesting.start_ns,
        label.module_id,
        try_cast(json_extract(op.input_dims, '$[0]') as bigint[]) as sizes,
        element_type.bytes as item_bytes
    from nesting
    inner join event on nesting.event_id = event.event_id and is_gradient_accumulation(event.name)
    inner join op on nesting.event_id = op.event_id
    inner join (select name, bytes_of_dtype(name) as bytes from dtypes) as element_type
        on json_extract_string(op.input_types, '$[0]') = element_type.name
    left join label on nesting.event_id = label.event_id
)

select
    numbered_pass.pass_number,
    accumulation_node.track_id,
    accumulation_node.module_id,
    accumulation_node.sizes,
    accumulation_node.item_bytes
from accumulation_node
asof inner join numbered_pass
    on accumulation_node.track_id = numbered_pass.track_id and accumulation_node.start_ns >= numbered_pass.start_ns
where element_count(accumulation_node.sizes) >= 0
