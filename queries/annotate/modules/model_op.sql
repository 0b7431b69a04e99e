-- Modules of the model in execution order, from the trace's `nn.Module` frames, a capture, or a given model.
--
-- A module's parent is the module around its first call. The profiler names a module by class and number (`Conv2d_3`).
-- `hotline_analysis.nvtx` names it by class and path (`Conv2d: layer1.0.conv1`, `ResNet: ` for the root).
--
-- :reads module_call
-- :column module_id BIGINT           position in execution order, parents before children, from 0
-- :column parent_id BIGINT           the calling module; NULL for a root
-- :column depth BIGINT               number of enclosing modules
-- :column name VARCHAR               last part of the path
-- :column path VARCHAR               path from the root module: `ResNet_0.Sequential_1.BasicBlock_0`; for a capture:
--                                    `layer1.0`
-- :column type VARCHAR               class of the module
-- :column param_count BIGINT         parameters; NULL if not in the trace
-- :column param_bytes BIGINT         bytes of the parameters; NULL if not in the trace
-- :column source VARCHAR             file and line; NULL if not in the trace
-- :column missing_call_count BIGINT  for a model aligned with the ops: calls without matching ops; NULL if the trace
--                                    has frames
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

-- Modules by name, numbered in order of their first calls.
module as (
    select
        module_key as name,
        parent_key as parent_name,
        contains(module_key, ': ') as has_path,
        regexp_extract(module_key, '^(\w+): (.*)$', ['type', 'path']) as told,
        row_number() over (order by start_ns, event_id) - 1 as module_id
    from first_call
),

-- Modules connected to a root, with the path.
tree as (
    select
        name,
        module_id,
        null::bigint as parent_id,
        0 as depth,
        has_path,
        told,
        case when has_path then told.path else name end as path
    from module
    where parent_name is null
    union all
    select
        module.name,
        module.module_id,
        tree.module_id as parent_id,
        tree.depth + 1,
        module.has_path,
        module.told,
        case when module.has_path then module.told.path else tree.path || '.' || module.name end
    from module
    inner join tree on module.parent_name = tree.name and module.name != tree.name
    where tree.depth < 200
)

select
    module_id,
    parent_id,
    depth::bigint as depth,
    case
        when has_path then coalesce(nullif(regexp_extract(told.path, '[^.]*$'), ''), told.type)
        else name
    end as name,
    path,
    case when has_path then told.type else regexp_replace(name, '_\d+$', '') end as type,
    null::bigint as param_count,
    null::bigint as param_bytes,
    null::varchar as source,
    null::bigint as missing_call_count,
    name as module_key
from tree
order by module_id
