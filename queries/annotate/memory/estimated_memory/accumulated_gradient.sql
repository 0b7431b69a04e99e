-- Gradients that backward passes accumulate: parameters that are trained have as many, of the same sizes.
--
-- A step may have several passes, and then each parameter has several gradients: a pass begins with a node whose op of
-- forward began after the nodes before.
--
-- :reads nesting, op, event, engine_call, dtypes, label
-- :column pass_number BIGINT  number of the pass on its thread
-- :column track_id BIGINT     the thread
-- :column module_id BIGINT    the module that the gradient counts to; NULL where none is known
-- :column sizes BIGINT[]      its sizes
-- :column item_bytes BIGINT   bytes of an element
with called_node as (
    select
        engine_call.track_id,
        engine_call.start_ns,
        engine_call.end_ns,
        event.start_ns as forward_ns
    from engine_call
    inner join event on engine_call.forward_id = event.event_id
),

first_of_pass as (
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
    from first_of_pass
),

accumulated as (
    select
        nesting.track_id,
        nesting.start_ns,
        label.module_id,
        try_cast(json_extract(op.input_dims, '$[0]') as bigint[]) as sizes,
        dtypes.bytes as item_bytes
    from nesting
    inner join event on nesting.event_id = event.event_id and event.name = 'torch::autograd::AccumulateGrad'
    inner join op on nesting.event_id = op.event_id
    inner join dtypes on json_extract_string(op.input_types, '$[0]') = dtypes.name
    left join label on nesting.event_id = label.event_id
)

select
    numbered_pass.pass_number,
    accumulated.track_id,
    accumulated.module_id,
    accumulated.sizes,
    accumulated.item_bytes
from accumulated
asof inner join numbered_pass
    on accumulated.track_id = numbered_pass.track_id and accumulated.start_ns >= numbered_pass.start_ns
where element_count(accumulated.sizes) >= 0
