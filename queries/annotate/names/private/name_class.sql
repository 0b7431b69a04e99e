-- Names that tell what happens inside an event: a phase, a bucket, a module call or an autograd node.
--
-- Rules are data (`rules/phase_names.csv`): for phases, for buckets and for signs, the first rule that matches a name
-- counts. A `strong` name decides for all it contains, the innermost one first. A `weak` name decides only where no
-- strong one is around it: a loss computed inside the model's forward is loss, and a module called inside `## loss ##`
-- is loss too. An `aside` name tells only where nothing in its event or around it does: most say that it is no part of
-- a phase. `metadata` names an op that computes nothing: it describes or allocates tensors. The names are PyTorch's own
-- (torch/profiler, torch/optim/optimizer.py, torch/utils/data/dataloader.py, torch/csrc/autograd/engine.cpp),
-- Lightning's (pytorch_lightning/profilers) and common words in users' annotations.
--
-- :reads name_info, phase_names
-- :column class_id BIGINT       TODO
-- :column category VARCHAR      TODO
-- :column name VARCHAR          TODO
-- :column strong_phase VARCHAR  TODO
-- :column weak_phase VARCHAR    TODO
-- :column aside_phase VARCHAR   TODO
-- :column bucket VARCHAR        TODO
-- :column sign VARCHAR          TODO
-- :column evidence VARCHAR      TODO
-- :column is_node BOOLEAN       TODO
-- :column is_module BOOLEAN     TODO
-- :column is_sync BOOLEAN       TODO
-- :column is_metadata BOOLEAN   TODO
with -- No rule cares which number stands in a name (but in a word, such as `c10d`); steps and lines of files have many.
names as (
    select
        category,
        name,
        is_blocking,
        regexp_replace(name, '([^a-zA-Z0-9])\d\d+', '\100', 'g') as shape
    from name_info
    where category in ('cpu_op', 'user_annotation', 'python_function', 'cuda_runtime', 'cuda_driver')
),

shapes as (
    select distinct
        category,
        shape
    from names
),

told as (
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
                shapes.category, shapes.shape, case when rule.kind in ('bucket', 'sign', 'metadata') then rule.kind end
            order by rule.position
        ) = 1
),

matched as (
    select
        names.category,
        names.name,
        names.is_blocking,
        told.kind,
        told.label,
        told.evidence
    from names
    left join told on names.category = told.category and names.shape = told.shape
    where told.kind is not null or names.is_blocking
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
    max(evidence) filter (where kind not in ('bucket', 'sign', 'metadata')) as evidence,
    coalesce(bool_or(evidence = 'autograd'), false) as is_node,
    category = 'python_function' and starts_with(name, 'nn.Module: ') as is_module,
    bool_or(is_blocking) as is_sync,
    coalesce(bool_or(kind = 'metadata'), false) as is_metadata
from matched
group by category, name
order by category, name
