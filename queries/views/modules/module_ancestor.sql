-- Each module with all its ancestors, including itself.
--
-- :reads model_op
-- :column rank RANK
-- :column module_id BIGINT    the module
-- :column ancestor_id BIGINT  the module itself, or an ancestor
-- :column depth BIGINT        depth of the ancestor in the tree

-- one row per module and ancestor
with recursive ancestor_pair as (
    select
        rank,
        module_id,
        module_id as ancestor_id,
        parent_id,
        depth
    from model_op
    union all
    select
        ancestor_pair.rank,
        ancestor_pair.module_id,
        model_op.module_id as ancestor_id,
        model_op.parent_id,
        model_op.depth
    from ancestor_pair
    inner join model_op on ancestor_pair.rank = model_op.rank and ancestor_pair.parent_id = model_op.module_id
)

select
    rank,
    module_id,
    ancestor_id,
    depth
from ancestor_pair
