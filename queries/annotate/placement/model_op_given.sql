-- The modules as the user, or a capture in the trace, describes them.
--
-- :reads model_given
-- :writes model_op
-- :column module_id BIGINT           TODO
-- :column parent_id BIGINT           TODO
-- :column depth BIGINT               TODO
-- :column name VARCHAR               TODO
-- :column path VARCHAR               TODO
-- :column type VARCHAR               TODO
-- :column param_count BIGINT         TODO
-- :column param_bytes BIGINT         TODO
-- :column source VARCHAR             TODO
-- :column missing_call_count BIGINT  TODO
-- :column module_key VARCHAR         TODO
select
    *,
    module_id::varchar as module_key
from model_given
order by module_id
