-- Input for the alignment of backward with forward: autograd nodes, and the ops that may have created a node.
--
-- PyTorch names a node after the op that created it (tools/autograd/derivatives.yaml: `addmm` makes `AddmmBackward0`, a
-- python function `Scatter` makes `ScatterBackward`). The token is this name without decoration; an op and its node
-- have the same token. `container_id` is the enclosing engine call: a nested engine call has its forward ops there.
-- `is_unlikely` marks ops whose result has no gradient: the batch counter of a batch norm, and the mask of a dropout.
--
-- :reads cpu_span, event, name_class, nesting, engine_call, engine_segment
-- :column event_id BIGINT      the engine call, or the op
-- :column track_id BIGINT      thread
-- :column start_ns BIGINT      start
-- :column is_node BOOLEAN      a node with an unknown forward op; false for an op
-- :column is_unlikely BOOLEAN  an op that hardly ever creates a node; false for nodes
-- :column token VARCHAR        name in lower case, without namespace and `_`; equal for a node and its creator
-- :column container_id BIGINT  the innermost enclosing engine call; NULL if absent
with named_op as (
    -- Ops other than nodes, with the name of the next op on the thread.
    select
        cpu_span.event_id,
        cpu_span.track_id,
        cpu_span.start_ns,
        cpu_span.end_ns,
        event.name,
        lead(event.name) over (
            partition by cpu_span.track_id order by cpu_span.start_ns, cpu_span.end_ns desc, cpu_span.event_id
        ) as next_name,
        regexp_replace(regexp_replace(lower(event.name), '^[^ ]*::', ''), '_', '', 'g') as token
    from cpu_span
    inner join event on cpu_span.event_id = event.event_id
    left join name_class on cpu_span.class_id = name_class.class_id
    where cpu_span.is_op and not coalesce(name_class.is_node, false)
),

-- The same ops, with the token of a possible node.
creator as (
    select
        event_id,
        track_id,
        start_ns,
        end_ns,
        name,
        next_name,
        case
            when token in (select token from engine_call) then token
            -- `aten::nll_loss_forward` makes `NllLossBackward0`
            else regexp_replace(token, 'forward$', '')
        end as token
    from named_op
),

-- Names of ops that leave node creation to an inner op: some op of this name contains an op with the same token
-- (`aten::embedding_bag` contains `aten::_embedding_bag`). Elsewhere, an op of this name may contain a different op,
-- which then creates the node (`aten::mean` in `aten::adaptive_avg_pool2d`, if one pixel is left).
outer_creator as (
    select distinct outer_op.name
    from creator as inner_op
    inner join nesting on inner_op.event_id = nesting.event_id
    inner join nesting as around on nesting.parent_id = around.event_id
    inner join creator as outer_op on around.op_id = outer_op.event_id and inner_op.token = outer_op.token
    where inner_op.name != outer_op.name
),

-- Ops that scale the mask of a dropout.
mask as (
    select creator.event_id
    from creator
    inner join nesting on creator.event_id = nesting.event_id
    inner join nesting as around on nesting.parent_id = around.event_id
    inner join event on around.op_id = event.event_id
    where creator.name = 'aten::div_' and ends_with(event.name, 'dropout')
),

-- Ops with the token of some node. Events starting before `closed_until_ns` are inside the op; NULL for python
-- functions, which may contain ops that create nodes.
candidate as (
    select
        event_id,
        track_id,
        start_ns,
        end_ns,
        token,
        name = 'aten::add_' and coalesce(next_name = 'aten::batch_norm', false)
        or event_id in (select event_id from mask) as is_unlikely,
        case when contains(name, '::') then end_ns end as closed_until_ns
    from creator
    where
        token in (select token from engine_call where token != '')
        and name not in (select name from outer_creator)
),

-- Outermost candidates: inside an op that creates a node, PyTorch creates no further nodes
-- (c10/core/impl/LocalDispatchKeySet.h).
outermost_op as (
    select
        event_id,
        track_id,
        start_ns,
        token,
        is_unlikely
    from candidate
    qualify is_outermost(start_ns, closed_until_ns, track_id, (-end_ns, event_id))
),

-- The same ops, with the enclosing engine call.
placed_op as (
    select
        outermost_op.event_id,
        outermost_op.track_id,
        outermost_op.start_ns,
        outermost_op.token,
        outermost_op.is_unlikely,
        engine_segment.call_id as container_id
    from outermost_op
    asof left join engine_segment
        on outermost_op.track_id = engine_segment.track_id and outermost_op.start_ns >= engine_segment.start_ns
)

select
    event_id,
    track_id,
    start_ns,
    true as is_node,
    false as is_unlikely,
    token,
    container_id
from engine_call
where token != '' and forward_id is null
union all
select
    event_id,
    track_id,
    start_ns,
    false,
    is_unlikely,
    token,
    container_id
from placed_op
where container_id is null or container_id in (select container_id from engine_call)
order by start_ns, event_id
