-- Modules matched to ops, at each level of the pass.
--
-- The levels of a module are the module and its enclosing modules. With several models, each pass is the forward of one
-- model. This model encloses all modules of the pass, including modules listed in another model, and has no enclosing
-- module.
--
-- :reads module_match, model_given
-- :column root_id BIGINT      the model of the pass; NULL for a single model
-- :column module_id BIGINT    the module
-- :column depth BIGINT        number of modules enclosing the level's module
-- :column ancestor_id BIGINT  the level's module: the module itself, or an enclosing module
-- :column parent_id BIGINT    the module enclosing the ancestor in the list; NULL for the outermost
with recursive ancestor as (
    -- Each module, paired with itself and each enclosing module.
    select
        model_given.module_id,
        model_given.module_id as ancestor_id,
        model_given.parent_id,
        model_given.depth
    from model_given
    union all
    select
        ancestor.module_id,
        model_given.module_id as ancestor_id,
        model_given.parent_id,
        model_given.depth
    from ancestor
    inner join model_given on ancestor.parent_id = model_given.module_id
),

-- Modules with the model of the passes containing them.
matched_module as (
    select distinct
        module_id,
        root_id
    from module_match
)

select
    matched_module.root_id,
    matched_module.module_id,
    ancestor.depth,
    case
        when matched_module.root_id is null or own.depth is not null or ancestor.parent_id is not null
            then ancestor.ancestor_id
        else matched_module.root_id
    end as ancestor_id,
    ancestor.parent_id
from matched_module
inner join ancestor on matched_module.module_id = ancestor.module_id
left join ancestor as own
    on matched_module.module_id = own.module_id and matched_module.root_id = own.ancestor_id
where own.depth is null or ancestor.depth >= own.depth
order by matched_module.root_id, matched_module.module_id, ancestor.depth
