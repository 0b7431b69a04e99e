-- A row is a point of time at which GPU work of the window ends on a device.
--
-- :reads window_work
-- :only_with window_work
-- :column device BIGINT       the device
-- :column end_ns BIGINT       when it ends
-- :column event_id BIGINT     the work that ends; of several, the one that started last
-- :column launched_ns BIGINT  since when this waited in its queue
select
    device,
    end_ns,
    arg_max(event_id, place) as event_id,
    arg_max(launched_ns, place) as launched_ns
from window_work
where end_ns > start_ns
group by device, end_ns
