-- Likelihood that an op belongs to a module type, by rule or by similar names.
--
-- The weight is 8 for the main op of such a module, and 4 for a possible op. Types and ops are compared in lower case,
-- without namespace, punctuation and dimension (`Conv2d` and `Conv` become `conv`). The rules,
-- `rules/ops_of_types.csv`, cover PyTorch's modules (torch/nn/modules) and common names for things that are not modules
-- in PyTorch.
--
-- :reads leaf_type, forward_item, ops_of_types
-- :column type VARCHAR    type of a module or part, as in `type_part` without `?` and `!`
-- :column name VARCHAR    name of an op of `forward_item`
-- :column weight INTEGER  8 for the main op of the module type, 4 for a possible op
with type_name as (
    select
        type,
        regexp_replace(
            regexp_replace(regexp_replace(lower(type), '^.*(::|\.)', ''), '[^a-z0-9]', '', 'g'), '[123]d$', ''
        ) as plain
    from leaf_type
),

-- Ops without namespace and dimension.
op_name as (
    select
        name,
        regexp_replace(regexp_replace(regexp_replace(lower(name), '^[^ ]*::', ''), '_$', ''), '[123]d', '') as base
    from (select distinct name from forward_item) as distinct_name
),

-- Ops, with the plain name for the comparison with types.
plain_op_name as (
    select
        *,
        replace(base, '_', '') as plain_op
    from op_name
),

-- Pairs matching a rule.
match_by_rule as (
    select
        type_name.type,
        plain_op_name.name,
        max(rule.weight) as weight
    from type_name
    inner join ops_of_types as rule on regexp_matches(type_name.plain, rule.type_pattern)
    inner join plain_op_name on regexp_matches(plain_op_name.base, rule.op_pattern)
    group by type_name.type, plain_op_name.name
),

-- Pairs with similar names.
match_by_name as (
    select
        type_name.type,
        plain_op_name.name,
        case when type_name.plain = plain_op_name.plain_op then 8 else 4 end as weight
    from type_name
    inner join plain_op_name
        on
            type_name.plain = plain_op_name.plain_op
            or (length(plain_op_name.plain_op) >= 4 and ends_with(type_name.plain, plain_op_name.plain_op))
            or (length(type_name.plain) >= 4 and starts_with(plain_op_name.plain_op, type_name.plain))
    where type_name.plain != ''
)

select
    type,
    name,
    max(weight) as weight
from (select * from match_by_rule union all select * from match_by_name) as found
group by type, name
order by type, name
