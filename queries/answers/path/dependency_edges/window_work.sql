-- A row is GPU work of the window; with `launched`, or work before it that is not done or the last of its stream.
--
-- :takes start_ns, end_ns, until
-- :reads path_window, rank_work
-- :only_with rank_work
-- :column place BIGINT          number of the work, in order of time
-- :column event_id BIGINT       the GPU event
-- :column track_id BIGINT       its track
-- :column device BIGINT         the device; -1 where the file names none
-- :column stream BIGINT         the stream; -1 where the file names none
-- :column start_ns BIGINT       its start, or that of the window if it starts before
-- :column end_ns BIGINT         its end, but not outside the window
-- :column runtime_id BIGINT     the call that launched it; NULL when the trace holds none
-- :column call_track_id BIGINT  the thread of the launch; NULL if it is not known
-- :column call_ns BIGINT        start of the launch call; NULL if it is not known
-- :column call_end_ns BIGINT    its end; NULL if it is not known
-- :column call_dur_ns BIGINT    duration of the call; 0 without one
-- :column launched_ns BIGINT    since when the work waits in its queue
-- :column is_awaited BOOLEAN    a copy whose call waits for it
-- :column is_earlier BOOLEAN    with `launched`: it was launched before the window
-- :column from_last BIGINT      1 for the last work of its stream that was launched in the window, 2 for that before,
--                               and so on; earlier work likewise
with counted as (
    select
        *,
        $until = 'launched' and launched_ns < $start_ns as is_earlier,
        row_number() over (
            partition by device, stream, launched_ns < $start_ns order by start_ns desc, end_ns desc, event_id desc
        ) as from_last
    from rank_work
    where launched_ns < $end_ns
)

select
    row_number() over (order by counted.start_ns, counted.end_ns, counted.event_id) as place,
    counted.event_id,
    counted.track_id,
    counted.device,
    counted.stream,
    greatest(counted.start_ns, path_window.start_ns) as start_ns,
    greatest(least(counted.end_ns, path_window.end_ns), path_window.start_ns) as end_ns,
    counted.runtime_id,
    counted.call_track_id,
    counted.call_ns,
    counted.call_end_ns,
    counted.call_dur_ns,
    counted.launched_ns,
    counted.is_awaited,
    counted.is_earlier,
    counted.from_last
from counted
cross join path_window
where
    counted.start_ns <= path_window.end_ns
    and (counted.end_ns > path_window.start_ns or (counted.is_earlier and counted.from_last = 1))
