-- What the training loop does, one after the other: the outermost ops and runtime calls of the main thread, and
-- autograd's nodes wherever they run.
--
-- Ops of python functions (their names have no `::`) are looked through. `is_update` tells an op that changes a tensor
-- by arithmetic in place, as optimizers do, `is_read` one that reads a value back, `is_fetch` one that puts a batch
-- together or draws one, `is_input` an op or call that copies something from the host to the device; `forward_ns` is
-- the start of the op that created a node.
--
-- :reads cpu_span, event, nesting, main_track, name_class, node, launch
-- :column start_ns BIGINT    start
-- :column end_ns BIGINT      end
-- :column name VARCHAR       name of the op, call or node
-- :column is_op BOOLEAN      an op or a node; false for a call of the runtime or driver
-- :column is_node BOOLEAN    an autograd node
-- :column is_update BOOLEAN  an op that changes a tensor in place by arithmetic; false for nodes
-- :column is_read BOOLEAN    an op that reads a value back; false for nodes
-- :column is_fetch BOOLEAN   an op that puts a batch together or draws one; false for nodes
-- :column is_input BOOLEAN   an op or call that copies from the host to the device; false for nodes
-- :column forward_ns BIGINT  of a node: start of the op that created it; NULL where that is not known, and for all else
with op as (
    -- Ops and calls of the runtime on the main thread.
    select
        cpu_span.event_id,
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns,
        nesting.depth,
        nesting.parent_id,
        cpu_span.is_op,
        coalesce(name_class.is_node, false) as is_node,
        coalesce(name_class.sign in ('update', 'rescale'), false) as is_update,
        coalesce(name_class.sign = 'read', false) as is_read,
        coalesce(name_class.sign in ('fetch', 'draw'), false) as is_fetch,
        event.name
    from cpu_span
    inner join nesting on cpu_span.event_id = nesting.event_id
    inner join event on cpu_span.event_id = event.event_id
    left join name_class on cpu_span.class_id = name_class.class_id
    where
        nesting.track_id in (select track_id from main_track)
        and (cpu_span.is_op or cpu_span.category in ('cuda_runtime', 'cuda_driver'))
),

-- Ops that hold other ops.
holder as (
    select distinct around.op_id
    from op
    inner join nesting as around on op.parent_id = around.event_id
    where op.is_op and around.op_id is not null
),

-- Items that are not looked through, and that stand in no other such item.
outermost_item as (
    select *
    from op
    where not is_node and (contains(name, '::') or not is_op or event_id not in (select op_id from holder))
    qualify is_outermost(start_ns, end_ns, track_id, depth)
),

-- Nodes, with the latest end of all nodes that started by then on the thread.
backward_run as (
    select
        node.track_id,
        node.start_ns,
        max(node.end_ns) over (partition by node.track_id order by node.start_ns rows unbounded preceding) as end_ns
    from node
),

-- Outermost items that stand in no node: ops that autograd runs on the main thread are part of its nodes.
loop_item as (
    select outermost_item.*
    from outermost_item
    asof left join backward_run
        on outermost_item.track_id = backward_run.track_id and outermost_item.start_ns >= backward_run.start_ns
    where coalesce(backward_run.end_ns <= outermost_item.start_ns, true)
),

-- Items that copy from the host to the device.
input_item as (
    select distinct loop_item.event_id
    from launch
    inner join event on launch.event_id = event.event_id
    inner join nesting on launch.runtime_id = nesting.event_id
    asof inner join loop_item
        on nesting.track_id = loop_item.track_id and nesting.start_ns >= loop_item.start_ns
    where event.category = 'gpu_memcpy' and contains(event.name, 'HtoD') and nesting.start_ns < loop_item.end_ns
)

select
    loop_item.start_ns,
    loop_item.end_ns,
    loop_item.name,
    loop_item.is_op,
    false as is_node,
    loop_item.is_update,
    loop_item.is_read,
    loop_item.is_fetch,
    loop_item.event_id in (select event_id from input_item) as is_input,
    null::bigint as forward_ns
from loop_item
union all
select
    node.start_ns,
    node.end_ns,
    event.name,
    true,
    true,
    false,
    false,
    false,
    false,
    forward.start_ns as forward_ns
from node
inner join event on node.event_id = event.event_id
left join nesting as forward on node.forward_id = forward.event_id
order by 1, 2 desc, 3
