-- One row per call that may wait for the GPU, or is named by a synchronisation record.
--
-- :takes rank, end_ns
-- :reads event, name_info, nesting, path_window, sync_mark
-- :column event_id BIGINT        the call
-- :column track_id BIGINT        thread of the call
-- :column start_ns BIGINT        start of the call
-- :column end_ns BIGINT          end of the call
-- :column correlation BIGINT     correlation number; NULL without one
-- :column is_waiting BOOLEAN     the call ends in the window and may wait for the GPU
-- :column is_for_all BOOLEAN     the call waits for all work, by its name
-- :column is_copying BOOLEAN     the call copies, by its name
select
    event.event_id,
    nesting.track_id,
    nesting.start_ns,
    nesting.end_ns,
    event.correlation,
    nesting.end_ns > path_window.start_ns
    and nesting.end_ns <= $end_ns
    and nesting.end_ns > nesting.start_ns
    and not is_event_call(event.name) as is_waiting,
    is_wait_for_device(event.name) as is_for_all,
    is_copy_call(event.name) as is_copying
from event
inner join nesting on event.rank = nesting.rank and event.event_id = nesting.event_id
inner join name_info
    on (event.rank, event.category, event.name) = (name_info.rank, name_info.category, name_info.name)
cross join path_window
where
    event.rank = $rank
    and event.category in ('cuda_runtime', 'cuda_driver')
    and (
        name_info.is_blocking
        or event.correlation in (select correlation from sync_mark)
        or event.correlation in (select wait_on_correlation from sync_mark)
    )
