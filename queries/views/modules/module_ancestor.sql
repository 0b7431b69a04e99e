-- Each module with all modules around it, itself included.
--
-- :reads model_op
-- :column rank BIGINT         process rank
-- :column module_id BIGINT    the module
-- :column ancestor_id BIGINT  the module itself, or one around it
-- :column depth BIGINT        depth of that one in the tree
with recursive above as (
    select
        rank,
        module_id,
        module_id as ancestor_id,
        parent_id,
        depth
    from model_op
    union all
    select
        above.rank,
        above.module_id,
        model_op.module_id as ancestor_id,
        model_op.parent_id,
        model_op.depth
    from above
    inner join model_op on above.rank = model_op.rank and above.parent_id = model_op.module_id
)

select
    rank,
    module_id,
    ancestor_id,
    depth
from above
