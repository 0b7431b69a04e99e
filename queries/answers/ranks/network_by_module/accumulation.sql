-- The gradients that are asked for, each with the time at which it is ready.
--
-- :takes rank, step
-- :reads gradient, gpu_work, phase_span
-- :column rank BIGINT          process rank
-- :column lane BIGINT          number of the backward pass
-- :column place BIGINT         place in order of time
-- :column step BIGINT          the step
-- :column pass_ns BIGINT       start of the forward before it; 0 where none is known
-- :column module_path VARCHAR  the module; NULL where none is known
-- :column dtype VARCHAR        type of its elements; NULL where it was not recorded
-- :column bytes BIGINT         its size; NULL where nothing tells it
-- :column evidence VARCHAR     shapes or model; NULL where nothing tells its size
-- :column start_ns BIGINT      when the CPU accumulates it
-- :column ready_ns BIGINT      when it is there: on the GPU, else on the CPU
-- :column begin_ns BIGINT      when the backward pass begins there
-- :column end_ns BIGINT        when the last gradient of the pass is there
with asked_gradient as (
    select
        gradient.* replace (coalesce(gradient.pass_ns, 0) as pass_ns),
        coalesce(gpu_work.end_ns, gradient.end_ns) as ready_ns,
        gpu_work.event_id is not null as is_on_gpu
    from gradient
    left join gpu_work on gradient.rank = gpu_work.rank and gradient.ready_id = gpu_work.event_id
    where gradient.step is not null and is_asked($rank, gradient.rank) and is_asked($step, gradient.step)
),

backward_pass as (
    select
        rank,
        step,
        pass_ns,
        bool_or(is_on_gpu) as is_on_gpu,
        max(ready_ns) as end_ns
    from asked_gradient
    group by rank, step, pass_ns
),

-- What runs in backward: work of the GPU, and phases of the CPU.
backward_part as (
    select
        rank,
        step,
        true as is_on_gpu,
        launch_start_ns as at_ns,
        start_ns
    from gpu_work
    where phase = 'backward' and class != 'communication'
    union all
    select
        phase_span.rank,
        null as step,
        false as is_on_gpu,
        phase_span.start_ns as at_ns,
        phase_span.start_ns
    from phase_span
    where phase_span.phase = 'backward' and phase_span.is_main
),

begun_pass as (
    select
        backward_pass.rank,
        backward_pass.step,
        backward_pass.pass_ns,
        any_value(backward_pass.end_ns) as end_ns,
        min(backward_part.start_ns) as begin_ns
    from backward_part
    asof inner join backward_pass
        on
            backward_part.rank = backward_pass.rank
            and backward_part.is_on_gpu = backward_pass.is_on_gpu
            and backward_part.at_ns >= backward_pass.pass_ns
    where
        backward_part.at_ns <= backward_pass.end_ns
        and (not backward_pass.is_on_gpu or backward_part.step = backward_pass.step)
    group by backward_pass.rank, backward_pass.step, backward_pass.pass_ns
)

select
    asked_gradient.rank,
    dense_rank() over (order by asked_gradient.rank, asked_gradient.step, asked_gradient.pass_ns) as lane,
    row_number() over (
        order by asked_gradient.rank, asked_gradient.start_ns, asked_gradient.event_id
    ) as place,
    asked_gradient.step,
    asked_gradient.pass_ns,
    asked_gradient.module_path,
    asked_gradient.dtype,
    asked_gradient.bytes,
    asked_gradient.evidence,
    asked_gradient.start_ns,
    asked_gradient.ready_ns,
    begun_pass.begin_ns,
    backward_pass.end_ns
from asked_gradient
inner join backward_pass
    on
        asked_gradient.rank = backward_pass.rank
        and asked_gradient.step = backward_pass.step
        and asked_gradient.pass_ns = backward_pass.pass_ns
left join begun_pass
    on
        backward_pass.rank = begun_pass.rank
        and backward_pass.step = begun_pass.step
        and backward_pass.pass_ns = begun_pass.pass_ns
