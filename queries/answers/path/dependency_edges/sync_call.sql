-- One row per call that may wait for the GPU, or is named by a synchronisation record.
--
-- :takes rank, end_ns
-- :reads cpu_event, path_window, sync_mark
-- :column event_id BIGINT        the call
-- :column track_id BIGINT        thread of the call
-- :column start_ns BIGINT        start of the call
-- :column end_ns BIGINT          end of the call
-- :column correlation BIGINT     correlation number; NULL without one
-- :column is_waiting BOOLEAN     the call ends in the window and may wait for the GPU
-- :column is_for_all BOOLEAN     the call waits for all work, by its name
-- :column is_copying BOOLEAN     the call copies, by its name
select
    cpu_event.event_id,
    cpu_event.track_id,
    cpu_event.start_ns,
    cpu_event.end_ns,
    cpu_event.correlation,
    cpu_event.end_ns > path_window.start_ns
    and cpu_event.end_ns <= $end_ns
    and cpu_event.end_ns > cpu_event.start_ns
    and not is_event_call(cpu_event.name) as is_waiting,
    is_wait_for_device(cpu_event.name) as is_for_all,
    is_copy_call(cpu_event.name) as is_copying
from cpu_event
cross join path_window
where
    cpu_event.rank = $rank
    and cpu_event.category in ('cuda_runtime', 'cuda_driver')
    and (
        cpu_event.is_blocking
        or cpu_event.correlation in (select correlation from sync_mark)
        or cpu_event.correlation in (select wait_on_correlation from sync_mark)
    )
