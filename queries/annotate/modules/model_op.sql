-- Modules of the model in execution order, by the trace's `nn.Module` frames, a capture, or a model given.
--
-- The modules, in the order of their first calls; a module's parent is the module around its first call.
--
-- :reads module_call
-- :column module_id BIGINT           position in execution order, parents before children, from 0
-- :column parent_id BIGINT           the module that calls it; NULL for a root
-- :column depth BIGINT               number of modules around it
-- :column name VARCHAR               last part of the path
-- :column path VARCHAR               path from the root module: `ResNet_0.Sequential_1.BasicBlock_0`; of a capture:
--                                    `layer1.0`
-- :column type VARCHAR               class of the module
-- :column param_count BIGINT         parameters; NULL when the trace does not say
-- :column param_bytes BIGINT         bytes of the parameters; NULL when the trace does not say
-- :column source VARCHAR             file and line; NULL when the trace does not say
-- :column missing_call_count BIGINT  of a model placed on the ops: calls for which none was found; NULL where frames
--                                    tell
with recursive first_call as (
    -- The first call of each module.
    select
        module_key,
        parent_key,
        start_ns,
        event_id
    from module_call
    qualify row_number() over (partition by module_key order by start_ns, depth, event_id) = 1
),

-- Modules by name, numbered in the order of their first calls.
module as (
    select
        module_key as name,
        parent_key as parent_name,
        row_number() over (order by start_ns, event_id) - 1 as module_id
    from first_call
),

-- Modules that hang together with a root, each with its path.
tree as (
    select
        name,
        module_id,
        null::bigint as parent_id,
        0 as depth,
        name as path
    from module
    where parent_name is null
    union all
    select
        module.name,
        module.module_id,
        tree.module_id as parent_id,
        tree.depth + 1,
        tree.path || '.' || module.name
    from module
    inner join tree on module.parent_name = tree.name and module.name != tree.name
    where tree.depth < 200
)

select
    module_id,
    parent_id,
    depth::bigint as depth,
    name,
    path,
    regexp_replace(name, '_\d+$', '') as type,
    null::bigint as param_count,
    null::bigint as param_bytes,
    null::varchar as source,
    null::bigint as missing_call_count,
    name as module_key
from tree
order by module_id
