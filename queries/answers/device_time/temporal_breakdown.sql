-- What each device did with its time: computing, communicating, moving memory, several of them at once, or nothing.
--
-- The window is wall time: from the first step or the first work of a device to the end of the last, or one step. The
-- GPU may still run work of an earlier step then; `steps` counts work to the step that launched it. Each instant of the
-- window is in exactly one of the eight parts `idle_ns` to `all_three_ns`, so they add up to `window_ns`. As in HTA's
-- `get_temporal_breakdown`, work of one class that overlaps counts once.
--
-- :param by VARCHAR in (run, step) = 'run'
--                               one row per rank and device (run), or also per step (step)
-- :param rank BIGINT = NULL     only this rank
-- :param device BIGINT = NULL   only this device
-- :param step BIGINT = NULL     only the window of this step
-- :reads gpu_state, step
-- :column rank BIGINT               process rank
-- :column device BIGINT             device number; -1 when the events name none
-- :column step BIGINT               the step; NULL for the whole run
-- :column window_ns BIGINT          length of the window
-- :column idle_ns BIGINT            nothing ran
-- :column computation_only_ns BIGINT             only computation ran
-- :column communication_only_ns BIGINT           only communication ran
-- :column memory_only_ns BIGINT                  only copies and memsets ran
-- :column computation_communication_ns BIGINT    computation and communication ran together
-- :column computation_memory_ns BIGINT           computation ran with copies or memsets
-- :column communication_memory_ns BIGINT         communication ran with copies or memsets
-- :column all_three_ns BIGINT                    all three ran together
-- :column busy_ns BIGINT            anything ran
-- :column computation_ns BIGINT     computation ran, whatever else did
-- :column communication_ns BIGINT   communication ran, whatever else did
-- :column memory_ns BIGINT          copies or memsets ran, whatever else did
-- :column edge_ns BIGINT            of the idle time, before the first and after the last work of the device
-- :column idle_pct DOUBLE           idle time as a share of the window
-- :column computation_pct DOUBLE    time with computation, likewise
-- :column communication_pct DOUBLE  time with communication, likewise
-- :column memory_pct DOUBLE         time with copies or memsets, likewise
-- :column exposed_communication_pct DOUBLE       time with communication and no computation, likewise
with state as (
    select * from gpu_state
    where is_asked($rank, rank) and is_asked($device, device)
),

active as (
    select
        rank,
        device,
        min(start_ns) as start_ns,
        max(end_ns) as end_ns
    from state
    group by rank, device
),

edges as (
    select
        rank,
        min(start_ns) as start_ns,
        max(end_ns) as end_ns
    from step
    group by rank
),

observed as (
    select
        active.rank,
        active.device,
        null::bigint as step,
        least(active.start_ns, edges.start_ns) as start_ns,
        greatest(active.end_ns, edges.end_ns) as end_ns
    from active
    left join edges on active.rank = edges.rank
    where $by = 'run' and $step is null
    union all
    select
        active.rank,
        active.device,
        step.step,
        step.start_ns,
        step.end_ns
    from active
    inner join step on active.rank = step.rank
    where ($by = 'step' or $step is not null) and is_asked($step, step.step) and step.end_ns > step.start_ns
),

-- Steps never overlap, so a state needs to be cut only where a window begins or ends.
piece as (
    select
        observed.rank,
        observed.device,
        observed.step,
        observed.start_ns as window_start_ns,
        observed.end_ns as window_end_ns,
        state.computation,
        state.communication,
        state.memory,
        least(state.end_ns, observed.end_ns) - greatest(state.start_ns, observed.start_ns) as dur_ns
    from observed
    inner join state
        on
            observed.rank = state.rank
            and observed.device = state.device
            and state.start_ns < observed.end_ns
            and state.end_ns > observed.start_ns
),

summed as (
    select
        observed.rank,
        observed.device,
        observed.step,
        observed.start_ns,
        observed.end_ns - observed.start_ns as window_ns,
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
    from observed
    left join piece
        on
            observed.rank = piece.rank
            and observed.device = piece.device
            and observed.start_ns = piece.window_start_ns
            and observed.end_ns = piece.window_end_ns
    group by observed.rank, observed.device, observed.step, observed.start_ns, observed.end_ns
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
from summed
order by rank, device, start_ns, step
