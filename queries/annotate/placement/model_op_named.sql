-- Modules from `nn.Module` frames, with the names stored by a capture.
--
-- Frames show the class and a number (`Linear_3`); a capture has `named_modules()`. Both list modules in order of first
-- call. The outermost module of the trace with the class and the child classes of the stored root is matched with this
-- root. Inside a matched pair, the n-th modules of each class are matched. A module without a match keeps the name of
-- its frame. Among identical-looking stored roots, the n-th to run is matched with the n-th such frame, except frames
-- inside the frame of another root.
--
-- :reads model_op, stored_module
-- :writes model_op
-- :column module_id BIGINT           unchanged
-- :column parent_id BIGINT           unchanged
-- :column depth BIGINT               unchanged
-- :column name VARCHAR               last part of the path
-- :column path VARCHAR               path in the captured model; for other modules, the path of the frames
-- :column type VARCHAR               class of the module
-- :column param_count BIGINT         parameters; NULL without a match
-- :column param_bytes BIGINT         bytes of the parameters; NULL without a match
-- :column source VARCHAR             file and line; NULL without a match
-- :column missing_call_count BIGINT  NULL: frames show the calls
-- :column module_key VARCHAR         unchanged
with recursive
-- Classes of each module's children in the trace, in order of first call.
frame_children as (
    select
        parent_id,
        list(type order by module_id) as types
    from model_op
    where parent_id is not null
    group by parent_id
),

-- Classes of each module's children in the capture, in order of first call.
named_children as (
    select
        parent_id,
        list(type order by module_id) as types
    from stored_module
    where parent_id is not null
    group by parent_id
),

-- Modules of the trace, with the number among modules of the same class and parent.
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

-- Stored modules, with the number among modules of the same class and parent.
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

-- Stored roots, with the number among identical-looking roots.
named_root as (
    select
        named_module.module_id,
        named_module.type,
        named_module.child_types,
        row_number() over (
            partition by named_module.type, named_module.child_types
            order by stored_module.first_call, stored_module.module_id
        ) as ordinal
    from named_module
    inner join stored_module on named_module.module_id = stored_module.module_id
    where named_module.parent_id is null
),

-- Modules of the trace that may be a stored root. Modules that are never called come last in the capture and are
-- ignored.
root_candidate as (
    select
        frame_module.module_id,
        frame_module.parent_id,
        named_root.module_id as stored_id,
        named_root.type,
        named_root.child_types,
        named_root.ordinal
    from named_root
    inner join frame_module
        on
            named_root.type = frame_module.type
            and list_slice(named_root.child_types, 1, len(frame_module.child_types)) = frame_module.child_types
),

-- Candidates, paired with each enclosing module.
module_around as (
    select
        stored_id,
        type,
        child_types,
        module_id,
        parent_id as around_id
    from root_candidate
    union all
    select
        module_around.stored_id,
        module_around.type,
        module_around.child_types,
        module_around.module_id,
        model_op.parent_id
    from module_around
    inner join model_op on module_around.around_id = model_op.module_id
    where model_op.parent_id is not null
),

-- Candidates inside the candidate of a root that looks different: parts of the different root.
part_of_root as (
    select distinct
        module_around.stored_id,
        module_around.module_id
    from module_around
    inner join root_candidate as around
        on
            module_around.around_id = around.module_id
            and (module_around.type, module_around.child_types) != (around.type, around.child_types)
),

-- Stored roots with the matching module of the trace.
root_pair as (
    select
        root_candidate.module_id,
        root_candidate.stored_id
    from root_candidate
    left join part_of_root
        on
            root_candidate.stored_id = part_of_root.stored_id
            and root_candidate.module_id = part_of_root.module_id
    where part_of_root.module_id is null
    qualify
        row_number() over (partition by root_candidate.stored_id order by root_candidate.module_id)
        = root_candidate.ordinal
),

-- Modules of the trace with the matching stored module.
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
