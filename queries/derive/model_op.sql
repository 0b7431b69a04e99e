-- The modules, in the order of their first calls; a module's parent is the module around its first call.
--
-- :reads module_call
with recursive first_call as (
    select
        module_key,
        parent_key,
        start_ns,
        event_id
    from module_call
    qualify row_number() over (partition by module_key order by start_ns, depth, event_id) = 1
),

numbered as (
    select
        module_key as name,
        parent_key as parent_name,
        row_number() over (order by start_ns, event_id) - 1 as module_id
    from first_call
),

tree as (
    select
        name,
        module_id,
        null::bigint as parent_id,
        0 as depth,
        name as path
    from numbered
    where parent_name is null
    union all
    select
        numbered.name,
        numbered.module_id,
        tree.module_id as parent_id,
        tree.depth + 1,
        tree.path || '.' || numbered.name
    from numbered
    inner join tree on numbered.parent_name = tree.name and numbered.name != tree.name
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
