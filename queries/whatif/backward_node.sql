-- Autograd nodes in backward order, with the shapes connecting the nodes.
--
-- Nodes that add a gradient to the gradient of a parameter have no row: they follow the node computing the gradient.
--
-- :param rank BIGINT              the process rank
-- :param step BIGINT = NULL       only this step
-- :reads cpu_event, nesting, op, gradient, gpu_event
-- :column step STEP
-- :column event_id BIGINT         autograd node
-- :column name VARCHAR            name of the node
-- :column made_dims JSON          shapes of its gradients, equal to the results of its forward op; NULL if not recorded
-- :column read_dims JSON          shapes of the arguments of the forward op; NULL if unknown
-- :column read_types JSON         types of the arguments
-- :column parameter_dims JSON     shapes of the parameters among the arguments; their gradients are accumulated right
--                                 after the node
-- :column cpu_ns BIGINT           duration on the CPU
-- :column gpu_ns BIGINT           time of the GPU work launched by the node
with node as (
    select
        cpu_event.event_id,
        cpu_event.name,
        cpu_event.step,
        cpu_event.track_id,
        cpu_event.start_ns,
        cpu_event.end_ns,
        op.sequence_number,
        op.input_dims
    from cpu_event
    left join op on cpu_event.rank = op.rank and cpu_event.event_id = op.event_id
    where
        cpu_event.rank = $rank
        and cpu_event.step is not null
        and cpu_event.category = 'cpu_op'
        and not is_engine_mark(cpu_event.name)
        and (is_backward_of_op(cpu_event.name) or ends_with(cpu_event.name, 'CopySlices'))
),

-- Ops with the sequence number of the node they create, or of the next node. Of ops that start together, the innermost
-- one creates the node.
numbered_op as (
    select
        op.sequence_number,
        nesting.start_ns,
        op.input_dims,
        op.input_types
    from op
    inner join nesting on op.rank = nesting.rank and op.event_id = nesting.event_id
    where
        op.rank = $rank
        and coalesce(op.forward_thread, 0) = 0
        and op.event_id not in (select event_id from node)
        and op.sequence_number in (select sequence_number from node)
    qualify
        row_number() over (
            partition by op.sequence_number, nesting.start_ns order by nesting.depth desc, op.event_id
        ) = 1
),

made_node as (
    select
        node.*,
        numbered_op.input_dims as read_dims,
        numbered_op.input_types as read_types
    from node
    asof left join numbered_op
        on node.sequence_number = numbered_op.sequence_number and node.start_ns >= numbered_op.start_ns
),

parameter_of_node as (
    select
        node.event_id,
        list(op.input_dims -> 0 order by gradient.start_ns) as parameter_dims
    from gradient
    asof inner join node on gradient.track_id = node.track_id and gradient.start_ns >= node.start_ns
    left join op on gradient.rank = op.rank and gradient.event_id = op.event_id
    where gradient.rank = $rank and gradient.step = node.step
    group by node.event_id
),

launched_work as (
    select
        nesting.track_id,
        nesting.start_ns,
        gpu_event.dur_ns
    from gpu_event
    inner join nesting on gpu_event.rank = nesting.rank and gpu_event.runtime_id = nesting.event_id
    where gpu_event.rank = $rank and gpu_event.class != 'communication'
),

gpu_time_of_node as (
    select
        node.event_id,
        sum(launched_work.dur_ns) as gpu_ns
    from launched_work
    asof inner join node on launched_work.track_id = node.track_id and launched_work.start_ns >= node.start_ns
    where launched_work.start_ns < node.end_ns
    group by node.event_id
)

select
    made_node.step,
    made_node.event_id,
    made_node.name,
    made_node.input_dims as made_dims,
    made_node.read_dims,
    made_node.read_types,
    to_json(parameter_of_node.parameter_dims) as parameter_dims,
    made_node.end_ns - made_node.start_ns as cpu_ns,
    coalesce(gpu_time_of_node.gpu_ns, 0)::bigint as gpu_ns
from made_node
left join parameter_of_node on made_node.event_id = parameter_of_node.event_id
left join gpu_time_of_node on made_node.event_id = gpu_time_of_node.event_id
where is_asked($step, made_node.step)
order by made_node.step, made_node.start_ns, made_node.event_id
