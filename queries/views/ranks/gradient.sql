-- Every gradient that is accumulated: how large it is, whose it is, and the GPU work that makes it.
--
-- A gradient has the shape and type of its parameter. Where they were not recorded and the model's table says how large
-- the parameters of a module are, its gradients of a pass have equal parts of that.
--
-- :reads event, label, nesting, op, phase_span, model_op, model_state, launch, name_info
-- :column rank BIGINT          process rank
-- :column event_id BIGINT      the node of autograd that accumulates it
-- :column track_id BIGINT      its thread
-- :column start_ns BIGINT      when the node starts
-- :column end_ns BIGINT        when it ends
-- :column step BIGINT          the step; NULL outside
-- :column pass_ns BIGINT       start of the last forward before it, which gradients of one backward pass share; NULL
--                              where none is known
-- :column module_path VARCHAR  the module; NULL where none is known
-- :column dtype VARCHAR        type of its elements; NULL where it was not recorded
-- :column bytes BIGINT         its size; NULL where neither shapes nor the model's table tell it
-- :column evidence VARCHAR     what tells its size: shapes or model; NULL where nothing does
-- :column ready_id BIGINT      the GPU work that was launched last before it on its thread; NULL without any
with accumulated as (
    select
        event.rank,
        event.event_id,
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns,
        label.step,
        model_op.path as module_path,
        nullif(op.input_types ->> 0, '') as dtype,
        -- the shape of the first input: of no dimension, it has one element
        list_product(try_cast(op.input_dims -> 0 as bigint[])) as elements,
        try_cast(elements * case
            when regexp_matches(dtype, '(?i)double|int64|long') then 8
            when regexp_matches(dtype, '(?i)half|bfloat16') then 2
            when regexp_matches(dtype, '(?i)float') then 4
        end as bigint) as shape_bytes
    from event
    inner join nesting on event.rank = nesting.rank and event.event_id = nesting.event_id
    left join label on event.rank = label.rank and event.event_id = label.event_id
    left join model_op on label.rank = model_op.rank and label.module_id = model_op.module_id
    left join op on event.rank = op.rank and event.event_id = op.event_id
    where event.name = 'torch::autograd::AccumulateGrad'
),

forward_span as (
    select
        rank,
        start_ns
    from phase_span
    where phase = 'forward' and is_main
),

-- Gradients with their backward pass.
of_pass as (
    select
        accumulated.*,
        forward_span.start_ns as pass_ns
    from accumulated
    asof left join forward_span
        on accumulated.rank = forward_span.rank and accumulated.start_ns >= forward_span.start_ns
),

parameter as (
    select
        rank,
        module_path,
        bytes
    from model_state
    where category = 'parameter' and module_path is not null
),

-- Gradients with their place among those of their module in a pass.
of_module as (
    select
        of_pass.*,
        parameter.bytes as module_bytes,
        row_number() over module_pass as place,
        count(*) over (partition by of_pass.rank, of_pass.step, of_pass.pass_ns, of_pass.module_path) as module_count
    from of_pass
    left join parameter on of_pass.rank = parameter.rank and of_pass.module_path = parameter.module_path
    window module_pass as (
        partition by of_pass.rank, of_pass.step, of_pass.pass_ns, of_pass.module_path
        order by of_pass.start_ns, of_pass.event_id
    )
),

-- Launches of all but collectives: what sends a bucket of gradients makes none.
launching as (
    select
        nesting.rank,
        nesting.track_id,
        nesting.start_ns,
        launch.event_id
    from launch
    inner join nesting on launch.rank = nesting.rank and launch.runtime_id = nesting.event_id
    inner join event on launch.rank = event.rank and launch.event_id = event.event_id
    inner join name_info
        on (event.rank, event.category, event.name) = (name_info.rank, name_info.category, name_info.name)
    where name_info.class != 'communication'
)

select
    of_module.rank,
    of_module.event_id,
    of_module.track_id,
    of_module.start_ns,
    of_module.end_ns,
    of_module.step,
    of_module.pass_ns,
    of_module.module_path,
    of_module.dtype,
    coalesce(
        of_module.shape_bytes,
        of_module.module_bytes * of_module.place // of_module.module_count
        - of_module.module_bytes * (of_module.place - 1) // of_module.module_count
    ) as bytes,
    case
        when of_module.shape_bytes is not null then 'shapes'
        when of_module.module_bytes is not null then 'model'
    end as evidence,
    launching.event_id as ready_id
from of_module
asof left join launching
    on
        of_module.rank = launching.rank
        and of_module.track_id = launching.track_id
        and of_module.start_ns >= launching.start_ns
