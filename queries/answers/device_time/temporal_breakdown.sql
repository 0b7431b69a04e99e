-- Time of each device by activity: computation, communication, memory, several at once, or idle.
--
-- The window is wall time: from the first step or first work of a device to the end of the last, or one step. The GPU
-- may still run work of an earlier step in a window; `steps` attributes work to the launching step. Each instant of the
-- window is in exactly one of the eight parts `idle_ns` to `all_three_ns`, so the parts add up to `window_ns`. As in
-- HTA's `get_temporal_breakdown`, overlapping work of one class counts once.
--
-- :param by VARCHAR in (run, step) = 'run'
--                               `run`: one row per rank and device; `step`: one row per rank, device and step
-- :param rank BIGINT = NULL     only this rank
-- :param device BIGINT = NULL   only this device
-- :param step BIGINT = NULL     only the window of this step
-- :reads gpu_state, step
-- :column rank RANK
-- :column device DEVICE             -1 without a device
-- :column step STEP                 NULL for the whole run
-- :column window_ns BIGINT          length of the window
-- :column idle_ns BIGINT            time without any work
-- :column computation_only_ns BIGINT
--                                   time with only computation
-- :column communication_only_ns BIGINT
--                                   time with only communication
-- :column memory_only_ns BIGINT     time with only copies and memsets
-- :column computation_communication_ns BIGINT
--                                   time with both computation and communication
-- :column computation_memory_ns BIGINT
--                                   time with both computation and copies or memsets
-- :column communication_memory_ns BIGINT
--                                   time with both communication and copies or memsets
-- :column all_three_ns BIGINT       time with all three
-- :column busy_ns BIGINT            time with any work
-- :column computation_ns BIGINT     time with computation, with or without other work
-- :column communication_ns BIGINT   time with communication, with or without other work
-- :column memory_ns BIGINT          time with copies or memsets, with or without other work
-- :column edge_ns BIGINT            idle time before the first and after the last work of the device
-- :column idle_pct DOUBLE           idle time as a share of the window
-- :column computation_pct DOUBLE    time with computation as a share of the window
-- :column communication_pct DOUBLE  time with communication as a share of the window
-- :column memory_pct DOUBLE         time with copies or memsets as a share of the window
-- :column exposed_communication_pct DOUBLE
--                                   time with communication and without computation as a share of the window
with state as (
    select * from gpu_state
    where is_asked($rank, rank) and is_asked($device, device)
),

active_range as (
    select
        rank,
        device,
        min(start_ns) as start_ns,
        max(end_ns) as end_ns
    from state
    group by rank, device
),

step_range as (
    select
        rank,
        min(start_ns) as start_ns,
        max(end_ns) as end_ns
    from step
    group by rank
),

-- one row per window of a device
device_window as (
    select
        active_range.rank,
        active_range.device,
        null::bigint as step,
        least(active_range.start_ns, step_range.start_ns) as start_ns,
        greatest(active_range.end_ns, step_range.end_ns) as end_ns
    from active_range
    left join step_range on active_range.rank = step_range.rank
    where $by = 'run' and $step is null
    union all
    select
        active_range.rank,
        active_range.device,
        step.step,
        step.start_ns,
        step.end_ns
    from active_range
    inner join step on active_range.rank = step.rank
    where ($by = 'step' or $step is not null) and is_asked($step, step.step) and step.end_ns > step.start_ns
),

-- Steps never overlap, so only the borders of windows cut a state.
piece as (
    select
        device_window.rank,
        device_window.device,
        device_window.step,
        device_window.start_ns as window_start_ns,
        device_window.end_ns as window_end_ns,
        state.computation,
        state.communication,
        state.memory,
        least(state.end_ns, device_window.end_ns) - greatest(state.start_ns, device_window.start_ns) as dur_ns
    from device_window
    inner join state
        on
            device_window.rank = state.rank
            and device_window.device = state.device
            and state.start_ns < device_window.end_ns
            and state.end_ns > device_window.start_ns
),

-- one row per window: time by combination of running classes
window_total as (
    select
        device_window.rank,
        device_window.device,
        device_window.step,
        device_window.start_ns,
        device_window.end_ns - device_window.start_ns as window_ns,
        coalesce(sum(piece.dur_ns) filter (
            where piece.computation and not piece.communication and not piece.memory
        ), 0)::bigint as computation_only_ns,
        coalesce(sum(piece.dur_ns) filter (
            where not piece.computation and piece.communication and not piece.memory
        ), 0)::bigint as communication_only_ns,
        coalesce(sum(piece.dur_ns) filter (
            where not piece.computation and not piece.communication and piece.memory
        ), 0)::bigint as memory_only_ns,
        coalesce(sum(piece.dur_ns) filter (
            where piece.computation and piece.communication and not piece.memory
        ), 0)::bigint as computation_communication_ns,
        coalesce(sum(piece.dur_ns) filter (
            where piece.computation and not piece.communication and piece.memory
        ), 0)::bigint as computation_memory_ns,
        coalesce(sum(piece.dur_ns) filter (
            where not piece.computation and piece.communication and piece.memory
        ), 0)::bigint as communication_memory_ns,
        coalesce(sum(piece.dur_ns) filter (
            where piece.computation and piece.communication and piece.memory
        ), 0)::bigint as all_three_ns,
        coalesce(sum(piece.dur_ns), 0)::bigint as active_ns,
        computation_only_ns + communication_only_ns + memory_only_ns + computation_communication_ns
        + computation_memory_ns + communication_memory_ns + all_three_ns as busy_ns,
        computation_only_ns + computation_communication_ns + computation_memory_ns + all_three_ns as computation_ns,
        communication_only_ns + computation_communication_ns + communication_memory_ns + all_three_ns
            as communication_ns,
        memory_only_ns + computation_memory_ns + communication_memory_ns + all_three_ns as memory_ns
    from device_window
    left join piece
        on
            device_window.rank = piece.rank
            and device_window.device = piece.device
            and device_window.start_ns = piece.window_start_ns
            and device_window.end_ns = piece.window_end_ns
    group by device_window.rank, device_window.device, device_window.step, device_window.start_ns, device_window.end_ns
)

select
    rank,
    device,
    step,
    window_ns,
    window_ns - busy_ns as idle_ns,
    computation_only_ns,
    communication_only_ns,
    memory_only_ns,
    computation_communication_ns,
    computation_memory_ns,
    communication_memory_ns,
    all_three_ns,
    busy_ns,
    computation_ns,
    communication_ns,
    memory_ns,
    window_ns - active_ns as edge_ns,
    100.0 * (window_ns - busy_ns) / nullif(window_ns, 0) as idle_pct,
    100.0 * computation_ns / nullif(window_ns, 0) as computation_pct,
    100.0 * communication_ns / nullif(window_ns, 0) as communication_pct,
    100.0 * memory_ns / nullif(window_ns, 0) as memory_pct,
    100.0 * (communication_only_ns + communication_memory_ns) / nullif(window_ns, 0) as exposed_communication_pct
from window_total
order by rank, device, start_ns, step
