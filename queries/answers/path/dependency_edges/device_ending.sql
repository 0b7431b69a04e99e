-- One row per time at which GPU work of the window ends on a device.
--
-- :reads window_work
-- :only_with window_work
-- :column device DEVICE
-- :column end_ns BIGINT       end of the work
-- :column event_id BIGINT     work ending at this time; of several, the work that started last
-- :column launched_ns BIGINT  time at which this work entered its queue
select
    device,
    end_ns,
    arg_max(event_id, place) as event_id,
    arg_max(launched_ns, place) as launched_ns
from window_work
where end_ns > start_ns
group by device, end_ns
