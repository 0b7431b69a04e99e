-- Delay from the start of an op to its first launch, and from there to the start of the GPU work, by op.
--
-- Each row groups the calls of an op with the same launched kernels, copies and memsets, in the same order. Launches of
-- inner ops do not count. The first delay is spent on the host: checks, dispatch, allocation. The second delay is the
-- way to the GPU and the wait in the queue. A negative delay (with an apparent start before the launch) counts as 0.
--
-- :param rank BIGINT = NULL                 only this rank
-- :param step BIGINT = NULL                 only this step
-- :param phase PHASE = NULL                 only this phase
-- :param module VARCHAR = NULL              only this module and its submodules, by path
-- :param op VARCHAR = NULL                  only ops with this name
-- :reads gpu_event, cpu_event
-- :column rank RANK
-- :column op VARCHAR                        name of the op
-- :column kernel_sequence VARCHAR           names of the launched GPU events, in order, joined by ` -> `
-- :column call_count BIGINT                 calls of the op
-- :column kernel_count BIGINT               GPU events of one call
-- :column op_to_launch_ns BIGINT            sum of the delays from op start to first launch
-- :column launch_to_start_ns BIGINT         sum of the delays from the start of the first launch to the start of the
--                                           GPU work
-- :column mean_op_to_launch_ns BIGINT       mean delay from op start to first launch
-- :column mean_launch_to_start_ns BIGINT    mean delay from first launch to GPU start
-- :column max_op_to_launch_ns BIGINT        longest delay from op start to first launch
-- :column max_launch_to_start_ns BIGINT     longest delay from first launch to GPU start
-- :column gpu_time_ns BIGINT                duration of the GPU work
-- :column slowest_id BIGINT                 event of the call with the longest sum of both delays

-- one row per GPU event with a known launching call and op
with work as (
    select
        rank,
        op_id,
        launch_start_ns as launched_ns,
        event_id,
        name,
        start_ns,
        dur_ns
    from gpu_event
    where runtime_id is not null and op_id is not null and is_asked($rank, rank)
),

-- one row per op call: the launched sequence, the first launch and the start of the first work
call as (
    select
        rank,
        op_id,
        string_agg(name, ' -> ' order by launched_ns, start_ns, event_id) as kernel_sequence,
        count(*) as kernel_count,
        sum(dur_ns) as gpu_time_ns,
        min(launched_ns) as launched_ns,
        arg_min(start_ns, (launched_ns, start_ns, event_id)) as started_ns
    from work
    group by rank, op_id
),

-- one row per selected op call, with both delays
delay as (
    select
        call.rank,
        call.op_id,
        op.name as op,
        call.kernel_sequence,
        call.kernel_count,
        call.gpu_time_ns,
        greatest(0, call.launched_ns - op.start_ns) as op_to_launch_ns,
        greatest(0, call.started_ns - call.launched_ns) as launch_to_start_ns
    from call
    inner join cpu_event as op on call.rank = op.rank and call.op_id = op.event_id
    where
        is_asked($step, op.step)
        and is_asked($phase, op.phase)
        and in_module(op.module_path, $module)
        and is_asked($op, op.name)
)

select
    rank,
    op,
    kernel_sequence,
    count(*) as call_count,
    max(kernel_count) as kernel_count,
    sum(delay.op_to_launch_ns)::bigint as op_to_launch_ns,
    sum(delay.launch_to_start_ns)::bigint as launch_to_start_ns,
    round(avg(delay.op_to_launch_ns))::bigint as mean_op_to_launch_ns,
    round(avg(delay.launch_to_start_ns))::bigint as mean_launch_to_start_ns,
    max(delay.op_to_launch_ns) as max_op_to_launch_ns,
    max(delay.launch_to_start_ns) as max_launch_to_start_ns,
    sum(delay.gpu_time_ns)::bigint as gpu_time_ns,
    arg_max(delay.op_id, (delay.op_to_launch_ns + delay.launch_to_start_ns, -delay.op_id)) as slowest_id
from delay
group by rank, op, kernel_sequence
order by rank, sum(delay.op_to_launch_ns + delay.launch_to_start_ns) desc, op, kernel_sequence
