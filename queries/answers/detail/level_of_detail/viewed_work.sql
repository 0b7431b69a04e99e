-- One row per kernel, copy or memset of the viewed steps, with its launching call and op.
--
-- :takes rank, step
-- :reads gpu_event, viewed_step
-- :column rank RANK
-- :column event_id BIGINT      the GPU event
-- :column step STEP            of the work; -1 outside every step
-- :column phase VARCHAR        phase; if unknown, the bucket of the time (`label`)
-- :column module_id BIGINT     module; NULL if unknown
-- :column pass VARCHAR         forward, backward or recompute; NULL if the module is unknown
-- :column runtime_id BIGINT    launching call; NULL if the trace has no launching call
-- :column op_id BIGINT         innermost op around the launch; NULL without an op
-- :column kernel_count BIGINT  GPU events launched by this call; NULL without a call
-- :column busy_ns BIGINT       part of the duration in which no earlier work keeps the device busy
select
    gpu_event.rank,
    gpu_event.event_id,
    coalesce(gpu_event.step, -1) as step,
    coalesce(gpu_event.phase, gpu_event.bucket) as phase,
    gpu_event.module_id,
    gpu_event.pass,
    gpu_event.runtime_id,
    gpu_event.op_id,
    gpu_event.kernel_count,
    gpu_event.busy_ns
from gpu_event
where
    ($rank is null or gpu_event.rank = $rank)
    and ($step is null or (gpu_event.rank, gpu_event.step) in (select (rank, step) from viewed_step))
