-- Hardware counters of each profiled kernel, with the op and module of its launch.
--
-- The view `counter_value` explains how the launch of a kernel is found, and the values of `evidence`.
--
-- :param rank BIGINT = NULL         only this rank
-- :param step BIGINT = NULL         only kernels launched in this step
-- :param phase PHASE = NULL         only kernels launched in this phase
-- :param module VARCHAR = NULL      only this module and its submodules, by path
-- :reads counter_value
-- :column rank RANK
-- :column event_id BIGINT           the profiled range
-- :column kernel VARCHAR            name of the kernel; `__missing__` if the profiler lost the name
-- :column counter VARCHAR           name of the counter
-- :column value DOUBLE              value of the counter
-- :column kernel_id BIGINT          the kernel's event; NULL without an event
-- :column launch_id BIGINT          the launching call; NULL if unknown
-- :column op_id BIGINT              op around the launch; NULL if unknown
-- :column op VARCHAR                name of the op; NULL if unknown
-- :column step STEP                 NULL if unknown
-- :column phase PHASE               NULL if unknown
-- :column module_path VARCHAR       module; NULL if unknown
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
