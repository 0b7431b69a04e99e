-- Calls in the forward ops that were learned, where all in the op have the names that were learned.
--
-- :reads placed_root, nesting, event, given_call
-- :column event_id BIGINT     the call
-- :column op_number BIGINT    the op that was learned
-- :column place BIGINT        place of the call in the op, from 0
-- :column argument_id BIGINT  what it was given; -1 where that was not observed
select
    call.event_id,
    placed_root.op_number,
    call.place,
    call.argument_id
from calls_as_learned('placed_root', 'nesting', 'event', 'given_call') as call
inner join placed_root on call.root_id = placed_root.event_id
