-- The launch of each GPU event: the launching call, and the times from call to execution.
--
-- All GPU events with the correlation id of a call were launched by the call; a graph launch has many. If a GPU event
-- has only an External id, the op is known but the call is not, and the launch times are NULL. Work launched by a call
-- outside of ops may belong to an op on another thread, identified by External id.
--
-- `busy_ns` divides a device's busy time among its work: overlapping time belongs to the work that started first.
--
-- :reads gpu_event
-- :column rank RANK
-- :column event_id BIGINT         the GPU event
-- :column runtime_id BIGINT       the launching runtime or driver call; NULL if not in the trace
-- :column op_id BIGINT            the innermost CPU op around the launch; NULL if absent
-- :column link VARCHAR            correlation, flow or external_id; NULL if unlinked
-- :column launch_start_ns BIGINT  start of the launching call; NULL if unlinked
-- :column launch_dur_ns BIGINT    duration of the launching call; NULL if unlinked
-- :column queue_ns BIGINT         time from the end of the call to the start of the work, not below 0; NULL if unlinked
--                                 or over 10 days
-- :column kernel_count BIGINT     GPU events launched by the same call (over 1: a graph); NULL if unlinked
-- :column busy_ns BIGINT          part of the duration without earlier work on the device; the sum is the time in
--                                 `gpu_busy`
select
    rank,
    event_id,
    runtime_id,
    op_id,
    link,
    launch_start_ns,
    launch_dur_ns,
    queue_ns,
    kernel_count,
    busy_ns
from gpu_event
