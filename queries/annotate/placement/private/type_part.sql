-- Parts of each type of modules: what such a module computes itself, as types that `type_evidence` knows, in the order
-- in which it does.
--
-- Most modules without children run one op, that of their type, and most with children none. The exceptions are torch's
-- attention, which applies its projections as functions, one to three before and one behind
-- (torch/nn/modules/activation.py); parametrized modules, which run the op of the class they are made from when their
-- parameters are computed (torch/nn/utils/parametrize.py, parametrizations.py); and modules that have no op of their
-- own or are often written by hand, in a trace that has no op for them. A part with a question mark may be missing; of
-- a hand-written module, all other parts must be there. A part with an exclamation mark is an op that runs instead of
-- all others of the module and of the modules in it: the fast path of evaluation (torch/nn/modules/transformer.py).
--
-- :reads module_type, forward_item, parts_of_types
-- :column type VARCHAR          class of the module, as in the list of modules
-- :column has_children BOOLEAN  whether the module has modules inside: the parts of a type depend on it
-- :column position BIGINT       order of the parts, from 1; 0 for an op that runs instead of all others
-- :column part VARCHAR          a type for `type_evidence`; with `?` at its end if it may be missing, with `!` if it
--                               runs instead of all others
with type_parts as (
    -- Types with the parts that a rule gives them.
    select
        module_type.type,
        module_type.has_children,
        case
            when rule.type_pattern is not null then string_split(coalesce(rule.parts, ''), ' ')
            when not module_type.has_children then ['']
        end as parts
    from module_type
    left join parts_of_types as rule
        on
            regexp_matches(module_type.type, rule.type_pattern)
            and module_type.has_children = rule.has_children
            and not coalesce((select bool_or(contains(name, rule.unless_op)) from forward_item), false)
),

-- Types that may run as one op.
fast_path as (
    select * from (
        values
        ('^TransformerEncoderLayer$', '_transformer_encoder_layer_fwd'),
        ('^MultiheadAttention$', '_native_multi_head_attention')
    ) as fast_paths (type_pattern, op)
),

-- Parts of types, with their place.
part_of_type as (
    select
        type,
        has_children,
        unnest(parts) as part,
        generate_subscripts(parts, 1) as position
    from type_parts
    union all
    select
        module_type.type,
        module_type.has_children,
        '!' as part,
        0 as position
    from module_type
    inner join fast_path on regexp_matches(module_type.type, fast_path.type_pattern)
    where exists (select 1 from forward_item where ends_with(forward_item.name, '::' || fast_path.op))
)

select
    type,
    has_children,
    position,
    case
        when part in ('', '?', '!') then regexp_replace(type, '^Parametrized([A-Z])', '\1') || part
        else part
    end as part
from part_of_type
order by type, has_children, position
