-- Distinct calls of ops with a rule.
--
-- A rule name ending in `*` matches all names with this prefix. An op ending in `_` uses the rule of the op without
-- `_`, unless it has a rule of its own. All overloads of an op have one name: a rule with the role `arguments` applies
-- only to calls with this number of arguments, and takes precedence over rules without the role. Calls with negative
-- sizes are damaged.
--
-- :reads event, op_argument, op_signature, op_signatures
-- :column shape_id BIGINT              number of the row
-- :column name VARCHAR                 name of the op
-- :column family VARCHAR               family of the formula
-- :column roles MAP(VARCHAR, BIGINT)   roles of the rule, with the position or number of each
-- :column input_dims JSON              the shapes, as recorded
-- :column input_types JSON             the types, as recorded
-- :column input_strides JSON           the strides, as recorded
-- :column concrete_inputs JSON         the values, as recorded
with call as (
    select distinct
        event.name,
        op.input_dims,
        op.input_types,
        op.input_strides,
        op.concrete_inputs,
        json_array_length(op.input_dims)::bigint as argument_count
    from op_argument as op
    inner join event on op.event_id = event.event_id
    where event.category = 'cpu_op' and event.dur_ns is not null and op.input_dims is not null
),

signature as (
    select
        name,
        family,
        roles,
        0 as source,
        position
    from op_signature
    union all
    select
        name,
        family,
        roles,
        1,
        position
    from op_signatures
),

-- Names and argument counts of ops, with the name of the op that does not work in place.
op_name as (
    select
        name,
        argument_count,
        rtrim(name, '_') as base
    from call
    group by name, argument_count
),

counting_signature as (
    select
        *,
        try_cast(nullif(regexp_extract(roles, '\barguments=(\d+)', 1), '') as bigint) as argument_count
    from signature
),

name_rule as (
    select
        op_name.name,
        op_name.argument_count,
        arg_min(signature, (
            signature.source,
            signature.name != op_name.name,
            signature.argument_count is null,
            signature.position
        )) as rule
    from op_name
    inner join counting_signature as signature
        on
            signature.name in (op_name.name, op_name.base)
            or (signature.name like '%*' and starts_with(op_name.name, rtrim(signature.name, '*')))
    where coalesce(signature.argument_count = op_name.argument_count, true)
    group by op_name.name, op_name.argument_count
)

select
    row_number() over (
        order by call.name, call.input_dims, call.input_types, call.input_strides, call.concrete_inputs
    ) as shape_id,
    call.name,
    name_rule.rule.family,
    map_from_entries(list_transform(
        regexp_extract_all(name_rule.rule.roles, '\w+=\d+'),
        lambda role: {'key': split_part(role, '=', 1), 'value': try_cast(split_part(role, '=', 2) as bigint)}
    )) as roles,
    call.input_dims,
    call.input_types,
    call.input_strides,
    call.concrete_inputs
from call
inner join name_rule
    on call.name = name_rule.name and call.argument_count is not distinct from name_rule.argument_count
where not contains(call.input_dims::varchar, '-')
