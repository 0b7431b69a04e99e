-- The modules as the user, or a capture in the trace, describes them.
--
-- :reads model_given
-- :writes model_op
-- :column module_id BIGINT           number of the module in the description, parents before children, from 0
-- :column parent_id BIGINT           the module around it; NULL for a root
-- :column depth BIGINT               number of modules around it
-- :column name VARCHAR               name of the module in the one around it
-- :column path VARCHAR               path from the root
-- :column type VARCHAR               class of the module
-- :column param_count BIGINT         parameters; NULL where the description does not say
-- :column param_bytes BIGINT         bytes of the parameters; NULL where the description does not say
-- :column source VARCHAR             file and line; NULL where the description does not say
-- :column missing_call_count BIGINT  calls for which no op was found
-- :column module_key VARCHAR         `module_id` as text: what `module_call` calls the module
select
    *,
    module_id::varchar as module_key
from model_given
order by module_id
