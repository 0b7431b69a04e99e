-- GPU busy time in the run, in each step and in each phase, and the causes of idle time.
--
-- GPU work belongs to the step and phase of its launch. Idle time before the next launch belongs to the step and phase
-- of the CPU; idle time after the launch belongs to the step and phase of the launched work (`idle_part`). Work
-- launched before the window or outside the steps counts only in the run.
--
-- `unobserved_ns` is idle time with launched work waiting for no reason visible in the file. The GPU may have run work
-- missing from the trace, so the true busy share is between `gpu_busy_pct` and `gpu_busy_most_pct`.
--
-- :param rank BIGINT = NULL           only this rank
-- :reads gpu_event, idle_part
-- :column rank RANK                   NULL for all ranks together
-- :column scope VARCHAR               run (of a rank), step or phase; all (ranks) if several ranks have GPU work
-- :column step STEP                   NULL for other scopes
-- :column phase PHASE                 NULL for other scopes
-- :column gpu_busy_ns BIGINT          time in which a device was busy
-- :column communication_ns BIGINT     busy time attributed to collective communication (overlapping time goes to the
--                                     work that started first)
-- :column copy_ns BIGINT              busy time attributed to copies and memsets
-- :column gpu_idle_ns BIGINT          time in which a device had no work
-- :column gpu_busy_pct DOUBLE         busy time as a share of busy and idle time; NULL without GPU work
-- :column gpu_busy_most_pct DOUBLE    busy share if the GPU worked in the unobserved time; NULL without GPU work
-- :column load_data_ns BIGINT         idle while the host loaded data
-- :column profiler_ns BIGINT          idle while the profiler itself worked in a call of the host
-- :column sync_ns BIGINT              idle while the host was inside a call that waits for the GPU
-- :column other_ranks_ns BIGINT       idle while the host waited for other ranks
-- :column other_thread_ns BIGINT      idle while the host waited for another thread of the process
-- :column cpu_tensor_ns BIGINT        idle while the host computed on CPU tensors
-- :column launching_ns BIGINT         idle while the host was inside ops and launch calls, or while the launch took
--                                     effect
-- :column python_ns BIGINT            idle while the host was outside ops
-- :column queued_ns BIGINT            idle after the launch: the launched work waited for other GPU work
-- :column unobserved_ns BIGINT        idle after the launch, for a reason not visible in the file
-- :column unknown_ns BIGINT           idle before work whose launch is not in the trace
-- :column queue_ns BIGINT             median time from the launching call to the start of the work; NULL without linked
--                                     work
-- :column idle_cause USE_CAUSE        largest cause of idle time; NULL without idle time

-- one row per GPU event with a launch: its busy time and queue time
with launched_work as (
    select
        rank,
        step,
        phase,
        busy_ns,
        queue_ns,
        class = 'memory' as is_copy,
        class = 'communication' as is_communication
    from gpu_event
),

-- one row per scope: busy time and queue time
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
    from launched_work
    group by grouping sets ((), (rank), (rank, step), (rank, phase))
),

-- one row per scope: idle time by cause
idle_time as (
    select
        rank,
        step,
        phase,
        grouping(rank, step, phase) as level,
        sum(end_ns - start_ns)::bigint as gpu_idle_ns,
        coalesce(sum(end_ns - start_ns) filter (where cause = 'load_data'), 0)::bigint as load_data_ns,
        coalesce(sum(end_ns - start_ns) filter (where cause = 'profiler'), 0)::bigint as profiler_ns,
        coalesce(sum(end_ns - start_ns) filter (where cause = 'sync'), 0)::bigint as sync_ns,
        coalesce(sum(end_ns - start_ns) filter (where cause = 'other_ranks'), 0)::bigint as other_ranks_ns,
        coalesce(sum(end_ns - start_ns) filter (where cause = 'other_thread'), 0)::bigint as other_thread_ns,
        coalesce(sum(end_ns - start_ns) filter (where cause = 'cpu_tensor'), 0)::bigint as cpu_tensor_ns,
        coalesce(sum(end_ns - start_ns) filter (where use_cause(cause) = 'launching'), 0)::bigint as launching_ns,
        coalesce(sum(end_ns - start_ns) filter (where cause = 'python'), 0)::bigint as python_ns,
        coalesce(sum(end_ns - start_ns) filter (where cause = 'queued'), 0)::bigint as queued_ns,
        coalesce(sum(end_ns - start_ns) filter (where cause = 'unobserved'), 0)::bigint as unobserved_ns,
        coalesce(sum(end_ns - start_ns) filter (where cause = 'unknown'), 0)::bigint as unknown_ns
    from idle_part
    group by grouping sets ((), (rank), (rank, step), (rank, phase))
),

-- one row per scope, with busy and idle time
scope_time as (
    select
        coalesce(work.rank, idle_time.rank) as rank,
        coalesce(work.step, idle_time.step) as step,
        coalesce(work.phase, idle_time.phase) as phase,
        coalesce(work.level, idle_time.level) as level,
        coalesce(work.gpu_busy_ns, 0) as gpu_busy_ns,
        coalesce(work.communication_ns, 0) as communication_ns,
        coalesce(work.copy_ns, 0) as copy_ns,
        coalesce(idle_time.gpu_idle_ns, 0) as gpu_idle_ns,
        coalesce(idle_time.load_data_ns, 0) as load_data_ns,
        coalesce(idle_time.profiler_ns, 0) as profiler_ns,
        coalesce(idle_time.sync_ns, 0) as sync_ns,
        coalesce(idle_time.other_ranks_ns, 0) as other_ranks_ns,
        coalesce(idle_time.other_thread_ns, 0) as other_thread_ns,
        coalesce(idle_time.cpu_tensor_ns, 0) as cpu_tensor_ns,
        coalesce(idle_time.launching_ns, 0) as launching_ns,
        coalesce(idle_time.python_ns, 0) as python_ns,
        coalesce(idle_time.queued_ns, 0) as queued_ns,
        coalesce(idle_time.unobserved_ns, 0) as unobserved_ns,
        coalesce(idle_time.unknown_ns, 0) as unknown_ns,
        work.queue_ns
    from work
    full join idle_time
        on
            work.rank is not distinct from idle_time.rank
            and work.level = idle_time.level
            and work.step is not distinct from idle_time.step
            and work.phase is not distinct from idle_time.phase
),

scope_with_cause as (
    select
        *,
        greatest(
            load_data_ns, profiler_ns, sync_ns, other_ranks_ns, other_thread_ns, cpu_tensor_ns, launching_ns, python_ns,
            queued_ns, unobserved_ns, unknown_ns
        ) as largest_ns,
        count(*) filter (where level = 3) over () as rank_count
    from scope_time
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
    100.0 * gpu_busy_ns / nullif(gpu_busy_ns + gpu_idle_ns, 0) as gpu_busy_pct,
    100.0 * (gpu_busy_ns + unobserved_ns) / nullif(gpu_busy_ns + gpu_idle_ns, 0) as gpu_busy_most_pct,
    load_data_ns,
    profiler_ns,
    sync_ns,
    other_ranks_ns,
    other_thread_ns,
    cpu_tensor_ns,
    launching_ns,
    python_ns,
    queued_ns,
    unobserved_ns,
    unknown_ns,
    queue_ns,
    case largest_ns
        when 0 then null
        when load_data_ns then 'load_data'
        when profiler_ns then 'profiler'
        when sync_ns then 'sync'
        when other_ranks_ns then 'other_ranks'
        when other_thread_ns then 'other_thread'
        when cpu_tensor_ns then 'cpu_tensor'
        when launching_ns then 'launching'
        when python_ns then 'python'
        when queued_ns then 'queued'
        when unobserved_ns then 'unobserved'
        else 'unknown'
    end as idle_cause
from scope_with_cause
where
    is_asked($rank, rank)
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
        ['load_data', 'forward', 'loss', 'zero_grad', 'backward', 'clipping', 'optimizer', 'other'], phase
    )
