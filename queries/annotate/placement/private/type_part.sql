-- Parts of each module type: the module's own computations, as types known to `type_evidence`, in order of execution.
--
-- Most modules without children run one op, the type's op; most modules with children run no op of their own. There are
-- three exceptions. Torch's attention applies its projections as functions, one to three before and one after
-- (torch/nn/modules/activation.py). Parametrized modules run the op of the original class, once their parameters are
-- computed (torch/nn/utils/parametrize.py, parametrizations.py). Some modules have no op of their own or are often
-- written by hand, if the trace has no op for them.
--
-- A part with a question mark is optional. For a hand-written module, all other parts are required. A part with an
-- exclamation mark is an op that replaces all other ops of the module and its inner modules: the fast path of
-- evaluation (torch/nn/modules/transformer.py).
--
-- :reads module_type, forward_item, parts_of_types
-- :column type VARCHAR          class of the module, as in the list of modules
-- :column has_children BOOLEAN  whether the module has inner modules; the parts of a type depend on it
-- :column position BIGINT       order of the parts, from 1; 0 for an op that replaces all others
-- :column part VARCHAR          a type for `type_evidence`; ends with `?` if optional, with `!` if it replaces all
--                               others
with type_with_parts as (
    -- Types with the parts from a rule.
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

-- Parts of types, with the position.
part_of_type as (
    select
        type,
        has_children,
        unnest(parts) as part,
        generate_subscripts(parts, 1) as position
    from type_with_parts
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
