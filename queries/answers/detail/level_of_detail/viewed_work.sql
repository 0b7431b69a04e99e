-- One row per kernel, copy or memset of the viewed steps, with its launching call and op.
--
-- :takes rank, step
-- :reads label, launch, viewed_step
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
    launch.rank,
    launch.event_id,
    coalesce(label.step, -1) as step,
    coalesce(label.phase, label.bucket) as phase,
    label.module_id,
    label.pass,
    launch.runtime_id,
    launch.op_id,
    launch.kernel_count,
    launch.busy_ns
from launch
inner join label on launch.rank = label.rank and launch.event_id = label.event_id
where
    ($rank is null or launch.rank = $rank)
    and ($step is null or (label.rank, label.step) in (select (rank, step) from viewed_step))
