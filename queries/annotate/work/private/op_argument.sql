-- Arguments of ops, recorded in the trace or seen by a capture before the recording.
--
-- :reads op, captured_op
-- :column event_id BIGINT       the op
-- :column input_dims JSON       the shapes
-- :column input_types JSON      the types
-- :column input_strides JSON    the strides
-- :column concrete_inputs JSON  the values; NULL if not recorded
-- :column is_captured BOOLEAN   the arguments were seen before the recording
select
    event_id,
    input_dims,
    input_types,
    input_strides,
    concrete_inputs,
    false as is_captured
from op
where input_dims is not null
union all
select
    event_id,
    input_dims,
    input_types,
    input_strides,
    concrete_inputs,
    true as is_captured
from captured_op
