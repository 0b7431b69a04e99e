-- Wall time of each step by the first of: kernel, copy, communication, runtime call, loading data, CPU op, other.
--
-- Every instant of a step counts once, to the first activity of this list at that instant, so the parts add up to the
-- step. Other activity during a kernel does not count. `other_ns` is time without activity of the GPU, the runtime or
-- ops: python, or time not recorded by the profiler. All threads and devices of the rank count. The GPU may still run
-- work of an earlier step. The order is that of the step time breakdown of PyTorch's TensorBoard plugin.
--
-- :param rank BIGINT = NULL         only this rank
-- :param step BIGINT = NULL         only this step
-- :reads step, gpu_state, event, cpu_event, phase_span
-- :column rank RANK
-- :column step STEP
-- :column wall_ns BIGINT            duration of the step on the CPU
-- :column kernel_ns BIGINT          a computation kernel ran
-- :column copy_ns BIGINT            else, a copy or memset ran
-- :column communication_ns BIGINT   else, communication ran
-- :column runtime_ns BIGINT         else, a thread was in a call of the CUDA or HIP runtime or driver
-- :column load_data_ns BIGINT       else, the main thread was loading data
-- :column cpu_ns BIGINT             else, a thread was in an op
-- :column other_ns BIGINT           else, other time

-- one row per interval of an activity
with activity as (
    select
        rank,
        start_ns,
        end_ns,
        case when computation then 'kernel' when memory then 'copy' else 'communication' end as kind
    from gpu_state
    where (computation or communication or memory) and is_asked($rank, rank)
    union all
    select
        rank,
        start_ns,
        end_ns,
        'runtime'
    from event
    where category in ('cuda_runtime', 'cuda_driver') and dur_ns > 0 and is_asked($rank, rank)
    union all
    -- skip ops inside another op
    select
        op.rank,
        op.start_ns,
        op.end_ns,
        'cpu'
    from cpu_event as op
    left join cpu_event as around on op.rank = around.rank and op.parent_id = around.event_id
    where
        op.op_id = op.event_id
        and around.op_id is null
        and op.end_ns > op.start_ns
        and is_asked($rank, op.rank)
    union all
    select
        rank,
        start_ns,
        end_ns,
        'load_data'
    from phase_span
    where phase = 'load_data' and is_main and end_ns > start_ns and is_asked($rank, rank)
    union all
    select
        rank,
        start_ns,
        end_ns,
        'step'
    from step
    where end_ns > start_ns and is_asked($rank, rank)
),

-- one row per start or end of an activity
border as (
    select
        rank,
        kind,
        start_ns as at_ns,
        1 as change
    from activity
    union all
    select
        rank,
        kind,
        end_ns,
        -1
    from activity
),

-- one row per instant: the changes in the number of running activities of each kind
merged_border as (
    select
        rank,
        at_ns,
        sum(case when kind = 'kernel' then change else 0 end) as kernel,
        sum(case when kind = 'copy' then change else 0 end) as copy,
        sum(case when kind = 'communication' then change else 0 end) as communication,
        sum(case when kind = 'runtime' then change else 0 end) as runtime,
        sum(case when kind = 'load_data' then change else 0 end) as load_data,
        sum(case when kind = 'cpu' then change else 0 end) as cpu
    from border
    group by rank, at_ns
),

-- one row per piece of time between two instants, with its kind
piece as (
    select
        rank,
        at_ns,
        lead(at_ns) over in_order - at_ns as dur_ns,
        case
            when sum(kernel) over in_order > 0 then 'kernel'
            when sum(copy) over in_order > 0 then 'copy'
            when sum(communication) over in_order > 0 then 'communication'
            when sum(runtime) over in_order > 0 then 'runtime'
            when sum(load_data) over in_order > 0 then 'load_data'
            when sum(cpu) over in_order > 0 then 'cpu'
            else 'other'
        end as kind
    from merged_border
    window in_order as (partition by rank order by at_ns rows unbounded preceding)
)

-- The borders of steps cut the pieces, so each piece is inside one step or outside all steps.
select
    step.rank,
    step.step,
    any_value(step.end_ns - step.start_ns) as wall_ns,
    coalesce(sum(piece.dur_ns) filter (where piece.kind = 'kernel'), 0)::bigint as kernel_ns,
    coalesce(sum(piece.dur_ns) filter (where piece.kind = 'copy'), 0)::bigint as copy_ns,
    coalesce(sum(piece.dur_ns) filter (where piece.kind = 'communication'), 0)::bigint as communication_ns,
    coalesce(sum(piece.dur_ns) filter (where piece.kind = 'runtime'), 0)::bigint as runtime_ns,
    coalesce(sum(piece.dur_ns) filter (where piece.kind = 'load_data'), 0)::bigint as load_data_ns,
    coalesce(sum(piece.dur_ns) filter (where piece.kind = 'cpu'), 0)::bigint as cpu_ns,
    coalesce(sum(piece.dur_ns) filter (where piece.kind = 'other'), 0)::bigint as other_ns
from piece
asof inner join step on piece.rank = step.rank and piece.at_ns >= step.start_ns
where piece.at_ns < step.end_ns and is_asked($step, step.step)
group by step.rank, step.step
order by step.rank, step.step
