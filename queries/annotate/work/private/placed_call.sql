-- Calls inside learned forward ops, if all calls in the op have the learned names.
--
-- :reads placed_root, nesting, event, given_call
-- :column event_id BIGINT     the call
-- :column op_number BIGINT    the learned op
-- :column place BIGINT        position of the call in the op, from 0
-- :column argument_id BIGINT  arguments of the call; -1 if not observed
select
    call.event_id,
    placed_root.op_number,
    call.place,
    call.argument_id
from calls_as_learned('placed_root', 'nesting', 'event', 'given_call') as call
inner join placed_root on call.root_id = placed_root.event_id
