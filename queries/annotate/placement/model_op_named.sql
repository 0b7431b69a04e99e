-- The modules that `nn.Module` frames show, under the names that a capture stored.
--
-- Frames show the class and a number (`Linear_3`), a capture knows `named_modules()`. Both list modules in the order of
-- their first calls. So the outermost module of the trace with the class and the children's classes of the stored root
-- is this root, and inside of a pair the n-th module of a class is the n-th of this class. A module without a partner
-- keeps the name of its frame.
--
-- :reads model_op, stored_module
-- :writes model_op
-- :column module_id BIGINT           as before
-- :column parent_id BIGINT           as before
-- :column depth BIGINT               as before
-- :column name VARCHAR               last part of the path
-- :column path VARCHAR               path in the model that the capture knows; of other modules, that of their frames
-- :column type VARCHAR               class of the module
-- :column param_count BIGINT         parameters; NULL without a partner
-- :column param_bytes BIGINT         bytes of the parameters; NULL without a partner
-- :column source VARCHAR             file and line; NULL without a partner
-- :column missing_call_count BIGINT  NULL: frames tell the calls
-- :column module_key VARCHAR         as before
with recursive
-- The classes of a module's children, in order of their first calls, by the trace.
frame_children as (
    select
        parent_id,
        list(type order by module_id) as types
    from model_op
    where parent_id is not null
    group by parent_id
),

-- The same by the capture.
named_children as (
    select
        parent_id,
        list(type order by module_id) as types
    from stored_module
    where parent_id is not null
    group by parent_id
),

-- The modules of the trace, with their number among those of the same class in the same parent.
frame_module as (
    select
        model_op.module_id,
        model_op.parent_id,
        model_op.type,
        row_number() over (partition by model_op.parent_id, model_op.type order by model_op.module_id) as ordinal,
        coalesce(frame_children.types, []) as child_types
    from model_op
    left join frame_children on model_op.module_id = frame_children.parent_id
),

-- The stored modules, in the same way.
named_module as (
    select
        stored_module.module_id,
        stored_module.parent_id,
        stored_module.type,
        row_number() over (
            partition by stored_module.parent_id, stored_module.type order by stored_module.module_id
        ) as ordinal,
        coalesce(named_children.types, []) as child_types
    from stored_module
    left join named_children on stored_module.module_id = named_children.parent_id
),

-- A stored root and its partner; modules that are never called stand last, so they do not count.
root_pair as (
    select
        frame_module.module_id,
        named_module.module_id as stored_id
    from named_module
    inner join frame_module
        on
            named_module.type = frame_module.type
            and list_slice(named_module.child_types, 1, len(frame_module.child_types)) = frame_module.child_types
    where named_module.parent_id is null
    qualify row_number() over (partition by named_module.module_id order by frame_module.module_id) = 1
),

-- A module of the trace and its partner.
pair as (
    from root_pair
    union all
    select
        frame_module.module_id,
        named_module.module_id as stored_id
    from pair
    inner join frame_module on pair.module_id = frame_module.parent_id
    inner join named_module
        on
            pair.stored_id = named_module.parent_id
            and (frame_module.type, frame_module.ordinal) = (named_module.type, named_module.ordinal)
)

select
    model_op.module_id,
    model_op.parent_id,
    model_op.depth,
    coalesce(stored_module.name, model_op.name) as name,
    coalesce(stored_module.path, model_op.path) as path,
    model_op.type,
    coalesce(stored_module.param_count, model_op.param_count) as param_count,
    coalesce(stored_module.param_bytes, model_op.param_bytes) as param_bytes,
    coalesce(stored_module.source, model_op.source) as source,
    model_op.missing_call_count,
    model_op.module_key
from model_op
left join pair on model_op.module_id = pair.module_id
left join stored_module on pair.stored_id = stored_module.module_id
order by model_op.module_id
