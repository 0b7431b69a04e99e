-- Each phase of the steps: time on the main CPU thread, GPU work launched in it, and how long the GPU was idle in it.
--
-- The CPU times of a rank add up to the duration of its steps. GPU work counts to the phase whose call launched it.
-- Idle time of the GPU counts to the phase that the CPU is in until it launches the next work; what passes after the
-- launch counts to the phase of the work (`idle_part`). The CPU waits for the GPU in the calls of `gpu_wait`.
--
-- :param rank BIGINT = NULL       only this rank
-- :param step BIGINT = NULL       only this step
-- :reads phase_span, step, label, event, launch, idle_part, gpu_wait
-- :column rank BIGINT             process rank
-- :column phase VARCHAR           load_data, forward, loss, zero_grad, backward, clipping, optimizer or other
-- :column cpu_ns BIGINT           time the main thread spent in it
-- :column cpu_pct DOUBLE          share of the steps' duration
-- :column cpu_waiting_ns BIGINT   of the CPU time, waiting for the GPU: blocking copies, synchronises, a full queue
-- :column gpu_event_count BIGINT  kernels, copies and memsets launched in it
-- :column gpu_time_ns BIGINT      sum of their durations
-- :column gpu_time_pct DOUBLE     share of the GPU time launched by the steps; NULL without GPU work
-- :column gpu_busy_ns BIGINT      time in which they kept a device busy
-- :column gpu_idle_ns BIGINT      time in which a device had no work because of what the CPU did in it, or was queued
--     in it
-- :column example_event_id BIGINT  the event that shows the longest stretch of it; NULL where no event does
with cpu_piece as (
    select
        phase_span.rank,
        phase_span.phase,
        phase_span.event_id,
        step.step,
        least(phase_span.end_ns, step.end_ns) - phase_span.start_ns as dur_ns,
        phase_span.start_ns < step.end_ns as in_step
    from phase_span
    asof inner join step on phase_span.rank = step.rank and phase_span.start_ns >= step.start_ns
    where phase_span.is_main
),

cpu as (
    select
        rank,
        phase,
        sum(dur_ns)::bigint as cpu_ns,
        arg_max(event_id, (dur_ns, -event_id)) as example_event_id
    from cpu_piece
    where in_step and is_asked($step, step)
    group by rank, phase
),

waiting as (
    select
        gpu_wait.rank,
        label.phase,
        sum(gpu_wait.waited_ns)::bigint as cpu_waiting_ns
    from gpu_wait
    inner join label on gpu_wait.rank = label.rank and gpu_wait.event_id = label.event_id
    -- the main thread, and autograd's own, which the main thread waits for
    semi join phase_span on gpu_wait.rank = phase_span.rank and gpu_wait.track_id = phase_span.track_id
    where label.phase is not null and is_asked($step, label.step)
    group by gpu_wait.rank, label.phase
),

gpu as (
    select
        label.rank,
        label.phase,
        count(*) as gpu_event_count,
        sum(event.dur_ns)::bigint as gpu_time_ns,
        sum(launch.busy_ns)::bigint as gpu_busy_ns
    from launch
    inner join label on launch.rank = label.rank and launch.event_id = label.event_id
    inner join event on launch.rank = event.rank and launch.event_id = event.event_id
    where label.phase is not null and is_asked($step, label.step)
    group by label.rank, label.phase
),

idle as (
    select
        rank,
        phase,
        sum(end_ns - start_ns)::bigint as gpu_idle_ns
    from idle_part
    where phase is not null and is_asked($step, step)
    group by rank, phase
),

named as (
    select
        rank,
        phase
    from cpu
    union
    select
        rank,
        phase
    from gpu
)

select
    named.rank,
    named.phase,
    coalesce(cpu.cpu_ns, 0) as cpu_ns,
    100.0 * coalesce(cpu.cpu_ns, 0) / nullif(sum(cpu.cpu_ns) over (partition by named.rank), 0) as cpu_pct,
    coalesce(waiting.cpu_waiting_ns, 0) as cpu_waiting_ns,
    coalesce(gpu.gpu_event_count, 0) as gpu_event_count,
    coalesce(gpu.gpu_time_ns, 0) as gpu_time_ns,
    100.0
    * coalesce(gpu.gpu_time_ns, 0)
    / nullif(sum(gpu.gpu_time_ns) over (partition by named.rank), 0) as gpu_time_pct,
    coalesce(gpu.gpu_busy_ns, 0) as gpu_busy_ns,
    coalesce(idle.gpu_idle_ns, 0) as gpu_idle_ns,
    cpu.example_event_id
from named
left join cpu on named.rank = cpu.rank and named.phase = cpu.phase
left join waiting on named.rank = waiting.rank and named.phase = waiting.phase
left join gpu on named.rank = gpu.rank and named.phase = gpu.phase
left join idle on named.rank = idle.rank and named.phase = idle.phase
where is_asked($rank, named.rank)
order by
    named.rank,
    list_position(
        ['load_data', 'forward', 'loss', 'zero_grad', 'backward', 'clipping', 'optimizer', 'other'], named.phase
    )
