-- A row is a kernel, copy or memset of the viewed steps, and the call and op that launched it.
--
-- :takes rank, step
-- :reads label, launch, viewed_step
-- :column rank BIGINT          process rank
-- :column event_id BIGINT      the GPU event
-- :column step BIGINT          the step that it belongs to; -1 outside every step
-- :column phase VARCHAR        the phase, or the bucket where none is known
-- :column module_id BIGINT     the module; NULL where none is known
-- :column pass VARCHAR         forward, backward or recompute; NULL where no module is known
-- :column runtime_id BIGINT    the call that launched it; NULL when the trace holds none
-- :column op_id BIGINT         the innermost op around the launch; NULL without one
-- :column kernel_count BIGINT  GPU events that this call launched; NULL without a call
-- :column busy_ns BIGINT       the part of its duration in which no earlier work keeps the device busy
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
