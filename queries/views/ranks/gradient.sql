-- Every accumulated gradient: its size, its module, and the GPU work computing it.
--
-- A gradient has the shape and type of its parameter. Without recorded shapes, the model table gives the size of a
-- module's parameters, split evenly over the module's gradients in a pass.
--
-- :reads gpu_event, cpu_event, op, phase_span, model_state
-- :column rank RANK
-- :column event_id BIGINT      autograd node accumulating the gradient
-- :column track_id BIGINT      thread of the node
-- :column start_ns BIGINT      start of the node
-- :column end_ns BIGINT        end of the node
-- :column step STEP            NULL outside every step
-- :column pass_ns BIGINT       start of the preceding forward, shared by all gradients of a backward pass; NULL if
--                              unknown
-- :column module_path VARCHAR  module; NULL if unknown
-- :column dtype VARCHAR        element type; NULL if not recorded
-- :column bytes BIGINT         size of the gradient; NULL without shapes and without a model table
-- :column evidence VARCHAR     source of the size: shapes or model; NULL if unknown
-- :column ready_id BIGINT      last GPU work launched before the node on its thread; NULL without GPU work

-- one row per accumulated gradient, with its size from shapes
with accumulation_node as (
    select
        cpu_event.rank,
        cpu_event.event_id,
        cpu_event.track_id,
        cpu_event.start_ns,
        cpu_event.end_ns,
        cpu_event.step,
        cpu_event.module_path,
        nullif(op.input_types ->> 0, '') as dtype,
        -- shape of the first input; a scalar has one element
        list_product(try_cast(op.input_dims -> 0 as bigint[])) as elements,
        try_cast(elements * bytes_of_dtype(dtype) as bigint) as shape_bytes
    from cpu_event
    left join op on cpu_event.rank = op.rank and cpu_event.event_id = op.event_id
    where is_gradient_accumulation(cpu_event.name)
),

forward_span as (
    select
        rank,
        start_ns
    from phase_span
    where phase = 'forward' and is_main
),

-- Gradients with their backward pass.
pass_gradient as (
    select
        accumulation_node.*,
        forward_span.start_ns as pass_ns
    from accumulation_node
    asof left join forward_span
        on accumulation_node.rank = forward_span.rank and accumulation_node.start_ns >= forward_span.start_ns
),

parameter as (
    select
        rank,
        module_path,
        bytes
    from model_state
    where category = 'parameter' and module_path is not null
),

-- Gradients with their number within their module and pass.
module_gradient as (
    select
        pass_gradient.*,
        parameter.bytes as module_bytes,
        row_number() over module_pass as place,
        count(*) over (
            partition by pass_gradient.rank, pass_gradient.step, pass_gradient.pass_ns, pass_gradient.module_path
        ) as module_count
    from pass_gradient
    left join parameter on pass_gradient.rank = parameter.rank and pass_gradient.module_path = parameter.module_path
    window module_pass as (
        partition by pass_gradient.rank, pass_gradient.step, pass_gradient.pass_ns, pass_gradient.module_path
        order by pass_gradient.start_ns, pass_gradient.event_id
    )
),

-- Launches except collectives, since the collectives of a bucket compute no gradients.
work_launch as (
    select
        rank,
        call_track_id as track_id,
        call_start_ns as start_ns,
        event_id
    from gpu_event
    where runtime_id is not null and call_start_ns is not null and class != 'communication'
)

select
    module_gradient.rank,
    module_gradient.event_id,
    module_gradient.track_id,
    module_gradient.start_ns,
    module_gradient.end_ns,
    module_gradient.step,
    module_gradient.pass_ns,
    module_gradient.module_path,
    module_gradient.dtype,
    coalesce(
        module_gradient.shape_bytes,
        module_gradient.module_bytes * module_gradient.place // module_gradient.module_count
        - module_gradient.module_bytes * (module_gradient.place - 1) // module_gradient.module_count
    ) as bytes,
    case
        when module_gradient.shape_bytes is not null then 'shapes'
        when module_gradient.module_bytes is not null then 'model'
    end as evidence,
    work_launch.event_id as ready_id
from module_gradient
asof left join work_launch
    on
        module_gradient.rank = work_launch.rank
        and module_gradient.track_id = work_launch.track_id
        and module_gradient.start_ns >= work_launch.start_ns
