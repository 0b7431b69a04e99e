-- Arguments of ops as a capture saw them in a pass before the recording, where the recording has none.
--
-- They count only where the trace shows that the same was run: a call of a module has the same ops in the same order as
-- in the pass that was learned, and an op has the same ops in it. An autograd node has those of the node that the same
-- call made, if it has the same ops in it. That the inputs had the same sizes cannot be seen.
--
-- :reads placed_call, node_call, given_argument
-- :column event_id BIGINT       the op
-- :column input_dims JSON       the shapes, as the profiler would have recorded them, and likewise what follows
-- :column input_types JSON      the types
-- :column input_strides JSON    the strides
-- :column concrete_inputs JSON  the values
with call as (
    select
        event_id,
        argument_id
    from placed_call
    union all
    select
        event_id,
        argument_id
    from node_call
)

select
    call.event_id,
    any_value(given_argument.input_dims)::json as input_dims,
    any_value(given_argument.input_types)::json as input_types,
    any_value(given_argument.input_strides)::json as input_strides,
    any_value(given_argument.concrete_inputs)::json as concrete_inputs
from call
inner join given_argument on call.argument_id = given_argument.argument_id
group by call.event_id
having count(*) = 1
order by call.event_id
