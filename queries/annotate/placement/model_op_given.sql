-- Modules of a model described by the user, or by a capture in the trace.
--
-- :reads model_given
-- :writes model_op
-- :column module_id BIGINT           number of the module in the description, parents before children, from 0
-- :column parent_id BIGINT           the enclosing module; NULL for a root
-- :column depth BIGINT               number of enclosing modules
-- :column name VARCHAR               name of the module in the enclosing module
-- :column path VARCHAR               path from the root
-- :column type VARCHAR               class of the module
-- :column param_count BIGINT         parameters; NULL if not in the description
-- :column param_bytes BIGINT         bytes of the parameters; NULL if not in the description
-- :column source VARCHAR             file and line; NULL if not in the description
-- :column missing_call_count BIGINT  calls without matching ops
-- :column module_key VARCHAR         `module_id` as text: the module's key in `module_call`
select
    *,
    module_id::varchar as module_key
from model_given
order by module_id
