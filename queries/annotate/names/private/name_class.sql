-- Event names that show the event's content: a phase, a bucket, a module call or an autograd node.
--
-- Rules are data (`rules/phase_names.csv`). For phases, and for each of the other kinds, the first rule matching a name
-- counts. A `strong` name applies to everything inside the event, and the innermost strong name wins. A `weak` name
-- applies only without an enclosing strong name: a loss computed inside the model's forward is loss, and a module
-- called inside `## loss ##` is also loss. An `aside` name applies only if no event inside or around it shows a phase;
-- most asides mean "no phase". `metadata` names an op without computation: the op describes or allocates tensors. The
-- names come from PyTorch (torch/profiler, torch/optim/optimizer.py, torch/utils/data/dataloader.py,
-- torch/csrc/autograd/engine.cpp), from Lightning (pytorch_lightning/profilers) and from common words in users'
-- annotations.
--
-- :reads name_info, phase_names
-- :column class_id BIGINT      number of the category and name, from 1; names without a rule are left out
-- :column category VARCHAR     kind of event, as in `event`
-- :column name VARCHAR         full name of the event
-- :column strong_phase PHASE   phase of everything inside the event, except inside inner strong names; NULL if the name
--                              shows no phase
-- :column weak_phase PHASE     phase of everything inside the event without an enclosing strong name; NULL if the name
--                              shows no phase
-- :column aside_phase PHASE    phase of the event if no event inside or around it shows another; NULL if the name shows
--                              no phase
-- :column bucket VARCHAR       gradient_accumulation or communication; NULL for other names
-- :column sign VARCHAR         layer, output, activation, update, list, read, rescale, fetch, copy, draw or create:
--                              purpose of the op, used where no phase is shown; write: the call writes a file
--                              (`is_writing_call`); NULL for other names
-- :column gradient VARCHAR     operation on gradients after backward: step, norm, square, gather, coefficient, sum,
--                              product, scale, bound, read, unscale, rescale or update; NULL for other names
-- :column evidence VARCHAR     source of the phase: annotation, profiler, autograd, python or op_name; NULL without a
--                              phase
-- :column is_node BOOLEAN      an autograd node, or the engine call of a node
-- :column is_module BOOLEAN    the frame of a module call
-- :column is_sync BOOLEAN      a runtime or driver call that returns when the GPU is done, as `name_info.is_blocking`
-- :column is_metadata BOOLEAN  an op without computation: describes or allocates tensors, or looks up compiled code
with event_name as (
    -- Names that may match a rule, with the shape: the name with long numbers replaced by 00. Steps, line numbers and
    -- generated names vary only in numbers, and no rule depends on them. Short numbers in words, like `c10d`, are kept.
    select
        category,
        name,
        is_blocking,
        regexp_replace(name, '([^a-zA-Z0-9])\d\d+|\d\d\d+', '\100', 'g') as shape
    from name_info
    where category in ('cpu_op', 'user_annotation', 'python_function', 'cuda_runtime', 'cuda_driver')
),

name_shape as (
    select distinct
        category,
        shape
    from event_name
),

-- The matching rule of each kind for each shape.
shape_rule as (
    select
        name_shape.category,
        name_shape.shape,
        rule.kind,
        rule.label,
        rule.evidence
    from name_shape
    inner join phase_names as rule
        on
            name_shape.category = rule.category
            -- A CASE instead of AND: the database may reorder an AND, and a pattern costs a hundred times as much as
            -- the word.
            and case
                when rule.word is null or contains(lower(name_shape.shape), rule.word)
                    then regexp_matches(name_shape.shape, rule.pattern)
            end
    qualify
        row_number() over (
            partition by
                name_shape.category,
                name_shape.shape,
                case when rule.kind in ('bucket', 'sign', 'gradient', 'metadata') then rule.kind end
            order by rule.position
        ) = 1
),

-- Names with the rules of their shape, or one row without a rule for a blocking call.
name_rule as (
    select
        event_name.category,
        event_name.name,
        event_name.is_blocking,
        shape_rule.kind,
        shape_rule.label,
        shape_rule.evidence
    from event_name
    left join shape_rule on event_name.category = shape_rule.category and event_name.shape = shape_rule.shape
    where
        shape_rule.kind is not null
        or event_name.is_blocking
        or is_writing_call(event_name.category, event_name.name)
)

select
    row_number() over (order by category, name) as class_id,
    category,
    name,
    max(label) filter (where kind = 'strong') as strong_phase,
    max(label) filter (where kind = 'weak') as weak_phase,
    max(label) filter (where kind = 'aside') as aside_phase,
    max(label) filter (where kind = 'bucket') as bucket,
    coalesce(
        max(label) filter (where kind = 'sign'), case when is_writing_call(category, name) then 'write' end
    ) as sign,
    max(label) filter (where kind = 'gradient') as gradient,
    max(evidence) filter (where kind not in ('bucket', 'sign', 'gradient', 'metadata')) as evidence,
    coalesce(bool_or(evidence = 'autograd'), false) as is_node,
    category = 'python_function' and starts_with(name, 'nn.Module: ') as is_module,
    bool_or(is_blocking) as is_sync,
    coalesce(bool_or(kind = 'metadata'), false) as is_metadata
from name_rule
group by category, name
order by category, name
