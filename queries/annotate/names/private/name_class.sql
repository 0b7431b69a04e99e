-- Names that tell what happens inside an event: a phase, a bucket, a module call or an autograd node.
--
-- Rules are data (`rules/phase_names.csv`): for phases, and for each of the other kinds, the first rule that matches a
-- name counts. A `strong` name decides for all it contains, the innermost one first. A `weak` name decides only where
-- no strong one is around it: a loss computed inside the model's forward is loss, and a module called inside `## loss
-- ##` is loss too. An `aside` name tells only where nothing in its event or around it does: most say that it is no part
-- of a phase. `metadata` names an op that computes nothing: it describes or allocates tensors. The names are PyTorch's
-- own (torch/profiler, torch/optim/optimizer.py, torch/utils/data/dataloader.py, torch/csrc/autograd/engine.cpp),
-- Lightning's (pytorch_lightning/profilers) and common words in users' annotations.
--
-- :reads name_info, phase_names
-- :column class_id BIGINT      number of the category and name, from 1; names that tell nothing have none
-- :column category VARCHAR     kind of event, as in `event`
-- :column name VARCHAR         the event's full name
-- :column strong_phase PHASE   phase of all that the event holds, but for stronger names in it; NULL where the name
--                              tells none
-- :column weak_phase PHASE     phase of what the event holds if no strong name is around; NULL where the name tells
--                              none
-- :column aside_phase PHASE    phase of the event if nothing in it or around it tells another; NULL where the name
--                              tells none
-- :column bucket VARCHAR       gradient_accumulation or communication; NULL for other names
-- :column sign VARCHAR         layer, output, activation, update, list, read, rescale, fetch, draw or create: what the
--                              op does, where no phase is shown; NULL for other names
-- :column gradient VARCHAR     what it does with gradients after backward: step, norm, square, gather, coefficient,
--                              sum, product, scale, bound, read, unscale, rescale or update; NULL for other names
-- :column evidence VARCHAR     kind of rule that tells the phase: annotation, profiler, autograd, python or op_name;
--                              NULL where none does
-- :column is_node BOOLEAN      an autograd node, or the engine's call of one
-- :column is_module BOOLEAN    the frame of a module's call
-- :column is_sync BOOLEAN      a call of the runtime or driver that returns when the GPU is done, as
--                              `name_info.is_blocking`
-- :column is_metadata BOOLEAN  an op that computes nothing: it describes or allocates tensors, or looks compiled code
--                              up
with names as (
    -- Names that a rule may match, each with its shape: the name without its numbers. No rule depends on a number in a
    -- name (but a short one in a word, such as `c10d`); steps, lines of files, and names that a program makes have
    -- many.
    select
        category,
        name,
        is_blocking,
        regexp_replace(name, '([^a-zA-Z0-9])\d\d+|\d\d\d+', '\100', 'g') as shape
    from name_info
    where category in ('cpu_op', 'user_annotation', 'python_function', 'cuda_runtime', 'cuda_driver')
),

shapes as (
    select distinct
        category,
        shape
    from names
),

-- The rule of each kind that counts for a shape.
shape_rule as (
    select
        shapes.category,
        shapes.shape,
        rule.kind,
        rule.label,
        rule.evidence
    from shapes
    inner join phase_names as rule
        on
            shapes.category = rule.category
            -- not AND, which the database evaluates in an order of its own: a pattern costs a hundred times the word
            and case
                when rule.word is null or contains(lower(shapes.shape), rule.word)
                    then regexp_matches(shapes.shape, rule.pattern)
            end
    qualify
        row_number() over (
            partition by
                shapes.category,
                shapes.shape,
                case when rule.kind in ('bucket', 'sign', 'gradient', 'metadata') then rule.kind end
            order by rule.position
        ) = 1
),

-- Names with the rules of their shape; one row without a rule for a call that blocks.
name_rule as (
    select
        names.category,
        names.name,
        names.is_blocking,
        shape_rule.kind,
        shape_rule.label,
        shape_rule.evidence
    from names
    left join shape_rule on names.category = shape_rule.category and names.shape = shape_rule.shape
    where shape_rule.kind is not null or names.is_blocking
)

select
    row_number() over (order by category, name) as class_id,
    category,
    name,
    max(label) filter (where kind = 'strong') as strong_phase,
    max(label) filter (where kind = 'weak') as weak_phase,
    max(label) filter (where kind = 'aside') as aside_phase,
    max(label) filter (where kind = 'bucket') as bucket,
    max(label) filter (where kind = 'sign') as sign,
    max(label) filter (where kind = 'gradient') as gradient,
    max(evidence) filter (where kind not in ('bucket', 'sign', 'gradient', 'metadata')) as evidence,
    coalesce(bool_or(evidence = 'autograd'), false) as is_node,
    category = 'python_function' and starts_with(name, 'nn.Module: ') as is_module,
    bool_or(is_blocking) as is_sync,
    coalesce(bool_or(kind = 'metadata'), false) as is_metadata
from name_rule
group by category, name
order by category, name
