-- A row is a call that may wait for the GPU, or that a synchronisation record names.
--
-- :takes rank, end_ns
-- :reads event, name_info, nesting, path_window, sync_mark
-- :column event_id BIGINT        the call
-- :column track_id BIGINT        its thread
-- :column start_ns BIGINT        its start
-- :column end_ns BIGINT          its end
-- :column correlation BIGINT     its number; NULL without one
-- :column is_waiting BOOLEAN     it ends in the window, and may wait for the GPU
-- :column is_for_all BOOLEAN     by its name, it waits for all work
-- :column is_copying BOOLEAN     by its name, it copies
select
    event.event_id,
    nesting.track_id,
    nesting.start_ns,
    nesting.end_ns,
    event.correlation,
    nesting.end_ns > path_window.start_ns
    and nesting.end_ns <= $end_ns
    and nesting.end_ns > nesting.start_ns
    and not regexp_matches(event.name, 'Event(Record|Query)|StreamWaitEvent') as is_waiting,
    regexp_matches(event.name, '(Device|Ctx|Context)Synchronize$|Free') as is_for_all,
    regexp_matches(event.name, 'Memcpy') as is_copying
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
