-- One row per node and each group around the node, at any depth.
--
-- :reads group_link, grouped_node
-- :column node_key UBIGINT   the node
-- :column group_key UBIGINT  the group

-- one row per node and group around it
with recursive member as (
    select
        grouped_node.key as node_key,
        group_link.parent_key as group_key
    from grouped_node
    inner join group_link on grouped_node.key = group_link.key
    where group_link.is_in_group
    union all
    select
        member.node_key,
        group_link.parent_key
    from member
    inner join group_link on member.group_key = group_link.key
    where group_link.is_in_group
)

select
    node_key,
    group_key
from member
