-- What bounds the run, each step and each phase: how busy the GPU is, and what the CPU does while it idles.
--
-- GPU work and the idle time before it belong to the step and phase that launched the work. The idle causes are those
-- of `gpu_gap` and add up to the idle time. Work launched before the window or outside the steps counts to the run
-- alone.
--
-- The GPU is what bounds if it is busy for at least `busy_pct` of the time; then communication or copies are named if
-- they are the first thing running for at least `class_pct` of the busy time. Otherwise the largest cause of idle time
-- gives the verdict, if it explains at least `cause_pct` of it.
--
-- :param rank BIGINT = NULL           only this rank
-- :param busy_pct DOUBLE >= 0 = 80    the least share of time that makes a GPU busy
-- :param class_pct DOUBLE >= 0 = 50   the least share of the busy time that names communication or copies
-- :param cause_pct DOUBLE >= 0 = 40   the least share of the idle time that names its cause
-- :reads launch, label, event, name_info, gpu_gap
-- :column rank BIGINT                 process rank; NULL for all together
-- :column scope VARCHAR               run (of a rank), step or phase; all (ranks), if several have GPU work
-- :column step BIGINT                 the step; NULL for other scopes
-- :column phase VARCHAR               the phase; NULL for other scopes
-- :column gpu_busy_ns BIGINT          time in which a device was busy
-- :column communication_ns BIGINT     of it, with collective communication as the first thing running
-- :column copy_ns BIGINT              of it, with a copy or memset as the first thing running
-- :column gpu_idle_ns BIGINT          time in which a device waited
-- :column gpu_busy_pct DOUBLE         busy time as a share of both; NULL without GPU work
-- :column load_data_ns BIGINT         idle while the host loaded data
-- :column sync_ns BIGINT              idle because of a synchronise
-- :column launching_ns BIGINT         idle while the host was inside ops and launch calls, or its launch took effect
-- :column python_ns BIGINT            idle while the host was outside ops
-- :column gpu_wait_ns BIGINT          idle although the work was launched: waiting for other GPU work
-- :column unknown_ns BIGINT           idle before work whose launch is not in the trace
-- :column queue_ns BIGINT             median time from launch call to start of the work; NULL without linked work
-- :column verdict VARCHAR             gpu-bound, communication-bound, copy-bound, input-bound, sync-bound,
--                                     launch-bound, python-bound, gpu-wait-bound, mixed, unknown, or no-gpu
with busy as (
    select
        label.rank,
        label.step,
        label.phase,
        launch.busy_ns,
        launch.queue_ns,
        name_info.class = 'memory' as is_copy,
        name_info.class = 'communication' as is_communication
    from launch
    inner join label on launch.rank = label.rank and launch.event_id = label.event_id
    inner join event on launch.rank = event.rank and launch.event_id = event.event_id
    left join name_info
        on (event.rank, event.category, event.name) = (name_info.rank, name_info.category, name_info.name)
),

work as (
    select
        rank,
        step,
        phase,
        grouping(rank, step, phase) as level,
        sum(busy_ns)::bigint as gpu_busy_ns,
        coalesce(sum(busy_ns) filter (where is_communication), 0)::bigint as communication_ns,
        coalesce(sum(busy_ns) filter (where is_copy), 0)::bigint as copy_ns,
        quantile_disc(queue_ns, 0.5) as queue_ns
    from busy
    group by grouping sets ((), (rank), (rank, step), (rank, phase))
),

idle as (
    select
        rank,
        step,
        phase,
        grouping(rank, step, phase) as level,
        sum(end_ns - start_ns)::bigint as gpu_idle_ns,
        sum(load_data_ns)::bigint as load_data_ns,
        sum(sync_ns)::bigint as sync_ns,
        sum(op_ns + launch_ns)::bigint as launching_ns,
        sum(python_ns)::bigint as python_ns,
        sum(queued_ns)::bigint as gpu_wait_ns,
        sum(unknown_ns)::bigint as unknown_ns
    from gpu_gap
    group by grouping sets ((), (rank), (rank, step), (rank, phase))
),

scoped as (
    select
        coalesce(work.rank, idle.rank) as rank,
        coalesce(work.step, idle.step) as step,
        coalesce(work.phase, idle.phase) as phase,
        coalesce(work.level, idle.level) as level,
        coalesce(work.gpu_busy_ns, 0) as gpu_busy_ns,
        coalesce(work.communication_ns, 0) as communication_ns,
        coalesce(work.copy_ns, 0) as copy_ns,
        coalesce(idle.gpu_idle_ns, 0) as gpu_idle_ns,
        coalesce(idle.load_data_ns, 0) as load_data_ns,
        coalesce(idle.sync_ns, 0) as sync_ns,
        coalesce(idle.launching_ns, 0) as launching_ns,
        coalesce(idle.python_ns, 0) as python_ns,
        coalesce(idle.gpu_wait_ns, 0) as gpu_wait_ns,
        coalesce(idle.unknown_ns, 0) as unknown_ns,
        work.queue_ns
    from work
    full join idle
        on
            work.rank is not distinct from idle.rank
            and work.level = idle.level
            and work.step is not distinct from idle.step
            and work.phase is not distinct from idle.phase
),

judged as (
    select
        *,
        100.0 * gpu_busy_ns / nullif(gpu_busy_ns + gpu_idle_ns, 0) as gpu_busy_pct,
        greatest(load_data_ns, sync_ns, launching_ns, python_ns, gpu_wait_ns, unknown_ns) as largest_ns,
        count(*) filter (where level = 3) over () as rank_count
    from scoped
)

select
    rank,
    case level when 7 then 'all' when 3 then 'run' when 1 then 'step' else 'phase' end as scope,
    step,
    phase,
    gpu_busy_ns,
    communication_ns,
    copy_ns,
    gpu_idle_ns,
    gpu_busy_pct,
    load_data_ns,
    sync_ns,
    launching_ns,
    python_ns,
    gpu_wait_ns,
    unknown_ns,
    queue_ns,
    case
        when gpu_busy_ns + gpu_idle_ns = 0 then 'no-gpu'
        when gpu_busy_pct >= $busy_pct and 100 * communication_ns >= $class_pct * gpu_busy_ns then 'communication-bound'
        when gpu_busy_pct >= $busy_pct and 100 * copy_ns >= $class_pct * gpu_busy_ns then 'copy-bound'
        when gpu_busy_pct >= $busy_pct then 'gpu-bound'
        when 100 * largest_ns < $cause_pct * gpu_idle_ns then 'mixed'
        when load_data_ns = largest_ns then 'input-bound'
        when sync_ns = largest_ns then 'sync-bound'
        when launching_ns = largest_ns then 'launch-bound'
        when python_ns = largest_ns then 'python-bound'
        when gpu_wait_ns = largest_ns then 'gpu-wait-bound'
        else 'unknown'
    end as verdict
from judged
where
    ($rank is null or rank = $rank)
    and (
        (level = 7 and rank_count > 1)
        or level = 3
        or (level = 1 and step is not null)
        or (level = 2 and phase is not null)
    )
order by
    rank nulls first,
    list_position(['run', 'step', 'phase'], scope),
    step,
    list_position(
        ['load_data', 'forward', 'loss', 'zero_grad', 'backward', 'optimizer', 'other'], phase
    )
