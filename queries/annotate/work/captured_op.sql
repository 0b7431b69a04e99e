-- Arguments of ops, seen by a capture in a pass before the recording, for ops without recorded arguments.
--
-- The arguments count only if the trace shows the same execution: a module call has the same ops in the same order as
-- in the learned pass, and an op has the same inner ops. An autograd node gets the arguments of the node created by the
-- same call, if it has the same inner ops. Equal input sizes cannot be verified.
--
-- :reads placed_call, node_call, given_argument
-- :column event_id BIGINT       the op
-- :column input_dims JSON       shapes, in the profiler's format
-- :column input_types JSON      types, in the profiler's format
-- :column input_strides JSON    strides, in the profiler's format
-- :column concrete_inputs JSON  values, in the profiler's format
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
