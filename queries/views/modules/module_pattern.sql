-- Each module with the pattern of its path; modules at the same position of repeated blocks share a pattern.
--
-- Blocks repeat if all siblings named by a number have one class, as in a `ModuleList`, and have submodules:
-- `layers.3.attn` becomes `layers.*.attn`. Frames number the modules of a class through the whole model. For frames,
-- siblings of one class with submodules repeat, except for plain sequences, whose class is not informative. Inside
-- repeated blocks, a module is named by its class, with a number if it has siblings of the class:
-- `Decoder_0.Layer_7.Linear_29` becomes `Decoder_0.Layer_*.Linear_1`.
--
-- :reads model_op
-- :column rank RANK
-- :column module_id BIGINT  the module
-- :column pattern VARCHAR   path with `*` for the number of a block

-- one row per module, with the parts of its path
with recursive module as (
    -- One row per module, with the part of its path after the parent's path, and the text up to its last part.
    select
        model_op.rank,
        model_op.module_id,
        model_op.parent_id,
        model_op.type,
        model_op.path,
        if(
            starts_with(model_op.path, parent.path || '.'),
            substr(model_op.path, length(parent.path) + 2),
            model_op.path
        ) as own_path,
        regexp_replace(model_op.path, '[^.]*$', '') as container,
        regexp_matches(model_op.path, '(^|\.)\d+$') as is_number,
        ends_with(regexp_replace(model_op.path, '_\d+$', ''), model_op.type) and regexp_matches(model_op.path, '_\d+$')
            as is_frame,
        exists (
            from model_op as child where child.rank = model_op.rank and child.parent_id = model_op.module_id
        ) as has_modules
    from model_op
    left join model_op as parent on model_op.rank = parent.rank and model_op.parent_id = parent.module_id
),

-- one row per module: whether it repeats, and its number among siblings of its class
sibling as (
    select
        *,
        case
            when is_number
                then
                    count(*) over in_container > 1
                    and count(distinct type) over in_container = 1
                    and bool_or(has_modules) over in_container
            when is_frame
                then type != 'Sequential' and count(*) over of_type > 1 and bool_or(has_modules) over of_type
            else false
        end as repeats,
        count(*) over of_type as sibling_count,
        row_number() over (of_type order by module_id) - 1 as ordinal
    from module
    window
        in_container as (partition by rank, container, is_number),
        of_type as (partition by rank, parent_id, container, type)
),

-- one row per module, with its pattern
named_module as (
    select
        rank,
        module_id,
        parent_id,
        case when repeats then regexp_replace(path, '\d+$', '*') else path end as pattern,
        repeats
    from sibling
    where parent_id is null
    union all
    select
        sibling.rank,
        sibling.module_id,
        sibling.parent_id,
        if(sibling.own_path = sibling.path, '', named_module.pattern || '.')
        || case
            when sibling.repeats then regexp_replace(sibling.own_path, '\d+$', '*')
            when sibling.is_frame and named_module.repeats and sibling.sibling_count > 1
                then regexp_replace(sibling.own_path, '\d+$', sibling.ordinal::varchar)
            when sibling.is_frame and named_module.repeats then regexp_replace(sibling.own_path, '_\d+$', '')
            else sibling.own_path
        end as pattern,
        named_module.repeats or sibling.repeats as repeats
    from named_module
    inner join sibling on named_module.rank = sibling.rank and named_module.module_id = sibling.parent_id
)

select
    rank,
    module_id,
    pattern
from named_module
