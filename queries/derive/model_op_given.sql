-- The modules as the user, or a capture in the trace, describes them.
--
-- :reads model_given
-- :writes model_op
select
    *,
    module_id::varchar as module_key
from model_given
order by module_id
