-- The longest events of a step, phase, module, op or kernel.
--
-- Use them to trace a number by step, phase, module, op or kernel back to events of the file. The events of an op are
-- its calls and the GPU work it launched. Annotations and python frames are left out, since they surround other events.
--
-- :param side VARCHAR in (all, cpu, gpu) = 'all'
--                                 `cpu`: ops and runtime calls; `gpu`: GPU work; `all`: both
-- :param rank BIGINT = NULL       only this rank
-- :param step BIGINT = NULL       only this step
-- :param phase PHASE = NULL       only this phase
-- :param module VARCHAR = NULL    only this module and its submodules, by path
-- :param op VARCHAR = NULL        only calls of this op, and GPU work launched by them
-- :param kernel VARCHAR = NULL    only kernels and copies with this name or short name
-- :param limit BIGINT >= 0 = 10   maximum number of rows
-- :reads annotated_event, cpu_event, name_info
-- :column rank RANK
-- :column event_id BIGINT         the event
-- :column category VARCHAR        category of the event
-- :column name VARCHAR            name of the event
-- :column step STEP               NULL outside every step
-- :column phase PHASE             NULL outside every step
-- :column module_path VARCHAR     module; NULL if unknown
-- :column op VARCHAR              the op itself, or the op around the event or its launch; NULL without an op
-- :column start_ns BIGINT         start
-- :column dur_ns BIGINT           duration
-- :column self_ns BIGINT          time outside inner events; equal to the duration for GPU work
select
    found.rank,
    found.event_id,
    found.category,
    found.name,
    found.step,
    found.phase,
    found.module_path,
    op.name as op,
    found.start_ns,
    found.dur_ns,
    found.self_ns
from annotated_event as found
inner join name_info
    on (found.rank, found.category, found.name) = (name_info.rank, name_info.category, name_info.name)
left join cpu_event as op
    on found.rank = op.rank and found.op_id = op.event_id
where
    found.category in (
        'cpu_op', 'cuda_runtime', 'cuda_driver', 'kernel', 'gpu_memcpy', 'gpu_memset'
    )
    and ($side = 'all' or ($side = 'gpu') = (found.category in ('kernel', 'gpu_memcpy', 'gpu_memset')))
    and is_asked($rank, found.rank)
    and is_asked($step, found.step)
    and is_asked($phase, found.phase)
    and in_module(found.module_path, $module)
    and is_asked($op, op.name)
    and ($kernel is null or (found.device is not null and $kernel in (found.name, name_info.short_name)))
order by found.dur_ns desc, found.rank, found.event_id
limit $limit
