-- Busy times of each device: at least one kernel, copy or memset runs, on any stream. Spans never overlap.
--
-- Touching intervals are merged. Synchronisation records and annotations on GPU tracks are not work and do not count.
--
-- :reads timed, gpu_op
-- :only_with timed where category in ('kernel', 'gpu_memcpy', 'gpu_memset')
-- :column device DEVICE    -1 without a device
-- :column start_ns BIGINT  start
-- :column end_ns BIGINT    end
with work as ( -- noqa: ST03
    select
        device_of(gpu_op.device) as device,
        timed.start_ns,
        timed.end_ns
    from timed
    left join gpu_op on timed.event_id = gpu_op.event_id
    where timed.category in ('kernel', 'gpu_memcpy', 'gpu_memset') and timed.end_ns > timed.start_ns
)

select
    lane as device,
    start_ns,
    end_ns
from merged('work', device)
order by device, start_ns
