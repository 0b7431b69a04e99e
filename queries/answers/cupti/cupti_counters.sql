-- Hardware counters of each profiled kernel, with the op and module that launched it.
--
-- The view `counter_value` says how the launch of a kernel is found, and what `evidence` stands for.
--
-- :param rank BIGINT = NULL         only this rank
-- :param step BIGINT = NULL         only kernels launched in this step
-- :param phase PHASE = NULL
--                                   only kernels launched in this phase
-- :param module VARCHAR = NULL      only the module with this path and the modules in it
-- :reads counter_value
-- :column rank BIGINT               process rank
-- :column event_id BIGINT           the profiled range
-- :column kernel VARCHAR            name of the kernel; `__missing__` where the profiler lost it
-- :column counter VARCHAR           name of the counter
-- :column value DOUBLE              its value
-- :column kernel_id BIGINT          the kernel's event; NULL when there is none
-- :column launch_id BIGINT          the launching call; NULL when unknown
-- :column op_id BIGINT              the op that launched it; NULL when unknown
-- :column op VARCHAR                its name; NULL when unknown
-- :column step BIGINT               training step; NULL when unknown
-- :column phase VARCHAR             phase; NULL when unknown
-- :column module_path VARCHAR       module; NULL when unknown
-- :column evidence VARCHAR          correlation, kernel_time or order_and_name; NULL when the launch is unknown
select
    rank,
    event_id,
    kernel,
    counter,
    value,
    kernel_id,
    launch_id,
    op_id,
    op,
    step,
    phase,
    module_path,
    evidence
from counter_value
where
    is_asked($rank, rank)
    and is_asked($step, step)
    and is_asked($phase, phase)
    and in_module(module_path, $module)
order by rank, event_id, counter
