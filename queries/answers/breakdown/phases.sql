-- Each phase of the steps: time on the main CPU thread, launched GPU work, and idle time of the GPU.
--
-- The CPU times of a rank add up to the duration of the steps. GPU work is attributed to the phase of its launching
-- call. Idle time before the next launch is attributed to the phase of the CPU; idle time after the launch to the phase
-- of the launched work (`idle_part`). `gpu_wait` lists the calls in which the CPU waits for the GPU.
--
-- :param rank BIGINT = NULL       only this rank
-- :param step BIGINT = NULL       only this step
-- :reads gpu_event, cpu_event, phase_span, step, idle_part, gpu_wait
-- :column rank RANK
-- :column phase PHASE
-- :column cpu_ns BIGINT           time of the main thread in the phase
-- :column cpu_pct DOUBLE          share of the duration of the steps
-- :column cpu_waiting_ns BIGINT   time spent waiting for the GPU: blocking copies, synchronising calls, a full queue
-- :column gpu_event_count BIGINT  kernels, copies and memsets launched in the phase
-- :column gpu_time_ns BIGINT      sum of the durations of this GPU work
-- :column gpu_time_pct DOUBLE     share of the GPU time launched by the steps; NULL without GPU work
-- :column gpu_busy_ns BIGINT      time in which this GPU work kept a device busy
-- :column gpu_idle_ns BIGINT      idle time of a device caused by the CPU in this phase, or with work of this phase
--                                 already launched
-- :column example_event_id BIGINT
--                                 event of the longest interval of the phase; NULL without an event

-- one row per interval of a phase on the main thread, cut at the end of the step
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

cpu_time as (
    select
        rank,
        phase,
        sum(dur_ns)::bigint as cpu_ns,
        arg_max(event_id, (dur_ns, -event_id)) as example_event_id
    from cpu_piece
    where in_step and is_asked($step, step)
    group by rank, phase
),

-- one row per phase: the time of waiting for the GPU
wait_time as (
    select
        gpu_wait.rank,
        cpu_event.phase,
        sum(gpu_wait.waited_ns)::bigint as cpu_waiting_ns
    from gpu_wait
    inner join cpu_event on gpu_wait.rank = cpu_event.rank and gpu_wait.event_id = cpu_event.event_id
    -- the main thread, and autograd's thread (the main thread waits for autograd)
    semi join phase_span on gpu_wait.rank = phase_span.rank and gpu_wait.track_id = phase_span.track_id
    where cpu_event.phase is not null and is_asked($step, cpu_event.step)
    group by gpu_wait.rank, cpu_event.phase
),

-- one row per phase: the launched GPU work
gpu_time as (
    select
        rank,
        phase,
        count(*) as gpu_event_count,
        sum(dur_ns)::bigint as gpu_time_ns,
        sum(busy_ns)::bigint as gpu_busy_ns
    from gpu_event
    where phase is not null and is_asked($step, step)
    group by rank, phase
),

idle_time as (
    select
        rank,
        phase,
        sum(end_ns - start_ns)::bigint as gpu_idle_ns
    from idle_part
    where phase is not null and is_asked($step, step)
    group by rank, phase
),

-- one row per phase with CPU time or GPU work
any_phase as (
    select
        rank,
        phase
    from cpu_time
    union
    select
        rank,
        phase
    from gpu_time
)

select
    any_phase.rank,
    any_phase.phase,
    coalesce(cpu_time.cpu_ns, 0) as cpu_ns,
    100.0 * coalesce(cpu_time.cpu_ns, 0) / nullif(sum(cpu_time.cpu_ns) over (partition by any_phase.rank), 0)
        as cpu_pct,
    coalesce(wait_time.cpu_waiting_ns, 0) as cpu_waiting_ns,
    coalesce(gpu_time.gpu_event_count, 0) as gpu_event_count,
    coalesce(gpu_time.gpu_time_ns, 0) as gpu_time_ns,
    100.0
    * coalesce(gpu_time.gpu_time_ns, 0)
    / nullif(sum(gpu_time.gpu_time_ns) over (partition by any_phase.rank), 0) as gpu_time_pct,
    coalesce(gpu_time.gpu_busy_ns, 0) as gpu_busy_ns,
    coalesce(idle_time.gpu_idle_ns, 0) as gpu_idle_ns,
    cpu_time.example_event_id
from any_phase
left join cpu_time on any_phase.rank = cpu_time.rank and any_phase.phase = cpu_time.phase
left join wait_time on any_phase.rank = wait_time.rank and any_phase.phase = wait_time.phase
left join gpu_time on any_phase.rank = gpu_time.rank and any_phase.phase = gpu_time.phase
left join idle_time on any_phase.rank = idle_time.rank and any_phase.phase = idle_time.phase
where is_asked($rank, any_phase.rank)
order by
    any_phase.rank,
    list_position(
        ['load_data', 'forward', 'loss', 'zero_grad', 'backward', 'clipping', 'optimizer', 'other'], any_phase.phase
    )
