-- One row per selected gradient, with the time at which it is ready.
--
-- :takes rank, step
-- :reads gradient, gpu_event, phase_span
-- :column rank RANK
-- :column lane BIGINT          number of the backward pass
-- :column place BIGINT         number in order of time
-- :column step STEP
-- :column pass_ns BIGINT       start of the preceding forward; 0 if unknown
-- :column module_path VARCHAR  module; NULL if unknown
-- :column dtype VARCHAR        element type; NULL if not recorded
-- :column bytes BIGINT         size of the gradient; NULL if unknown
-- :column evidence VARCHAR     shapes or model; NULL if the size is unknown
-- :column start_ns BIGINT      start of the accumulation on the CPU
-- :column ready_ns BIGINT      time at which the gradient is ready: on the GPU, else on the CPU
-- :column begin_ns BIGINT      start of the backward pass, on the GPU or else the CPU
-- :column end_ns BIGINT        time at which the last gradient of the pass is ready
with asked_gradient as (
    select
        gradient.* replace (coalesce(gradient.pass_ns, 0) as pass_ns),
        coalesce(gpu_event.end_ns, gradient.end_ns) as ready_ns,
        gpu_event.event_id is not null as is_on_gpu
    from gradient
    left join gpu_event on gradient.rank = gpu_event.rank and gradient.ready_id = gpu_event.event_id
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

-- Activity of backward: GPU work, and phases on the CPU.
backward_part as (
    select
        rank,
        step,
        true as is_on_gpu,
        launch_start_ns as at_ns,
        start_ns
    from gpu_event
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

-- one row per backward pass, with its start
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
