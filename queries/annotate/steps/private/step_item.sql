-- Items of the training loop in order: the outermost ops and runtime calls of the main thread, and autograd nodes on
-- any thread.
--
-- Ops of python functions (names without `::`) are replaced by their inner ops.
--
-- :reads cpu_span, event, nesting, main_track, name_class, node, launch
-- :column start_ns BIGINT    start
-- :column end_ns BIGINT      end
-- :column name VARCHAR       name of the op, call or node
-- :column is_op BOOLEAN      an op or a node; false for a runtime or driver call
-- :column is_node BOOLEAN    an autograd node
-- :column is_update BOOLEAN  an op that changes a tensor in place by arithmetic, as optimizers do; false for nodes
-- :column is_read BOOLEAN    an op that reads a value back; false for nodes
-- :column is_fetch BOOLEAN   an op that assembles a batch or draws a random batch; false for nodes
-- :column is_input BOOLEAN   an op or call that copies from the host to the device; false for nodes
-- :column forward_ns BIGINT  for a node: start of the op that created the node; NULL if unknown, and for all other
--                            items
with op as (
    -- Ops and runtime calls on the main thread.
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

-- Ops that contain other ops.
holder as (
    select distinct around.op_id
    from op
    inner join nesting as around on op.parent_id = around.event_id
    where op.is_op and around.op_id is not null
),

-- Outermost items, after replacing ops by their inner ops.
outermost_item as (
    select *
    from op
    where not is_node and (contains(name, '::') or not is_op or event_id not in (select op_id from holder))
    qualify is_outermost(start_ns, end_ns, track_id, depth)
),

-- Nodes, with the latest end of all nodes started up to each on the thread.
backward_run as (
    select
        node.track_id,
        node.start_ns,
        max(node.end_ns) over (partition by node.track_id order by node.start_ns rows unbounded preceding) as end_ns
    from node
),

-- Outermost items outside of nodes: ops that autograd runs on the main thread belong to the nodes.
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
    where event.category = 'gpu_memcpy' and is_copy_to_device(event.name) and nesting.start_ns < loop_item.end_ns
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
