-- One row per GPU work of the window; with `launched`, also unfinished or last earlier work of each stream.
--
-- :takes start_ns, end_ns, until
-- :reads path_window, rank_work
-- :only_with rank_work
-- :column place BIGINT          number of the work, in order of time
-- :column event_id BIGINT       the GPU event
-- :column track_id BIGINT       track of the GPU event
-- :column device DEVICE         -1 without a device
-- :column stream BIGINT         stream; -1 if the event has no stream
-- :column start_ns BIGINT       start of the GPU event, cut at the start of the window
-- :column end_ns BIGINT         end of the GPU event, cut at the borders of the window
-- :column runtime_id BIGINT     launching call; NULL if the trace has no launching call
-- :column call_track_id BIGINT  thread of the launch; NULL if unknown
-- :column call_ns BIGINT        start of the launching call; NULL if unknown
-- :column call_end_ns BIGINT    end of the launching call; NULL if unknown
-- :column call_dur_ns BIGINT    duration of the call; 0 without a call
-- :column launched_ns BIGINT    time at which the work entered its queue
-- :column is_awaited BOOLEAN    a copy whose call waits for the copy
-- :column is_earlier BOOLEAN    with `launched`: the work was launched before the window
-- :column from_last BIGINT      position from the end of its stream: 1 for the last work launched in the window, 2 for
--                               the work before, and so on; earlier work is numbered the same way
with numbered_work as (
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
    row_number() over (order by numbered_work.start_ns, numbered_work.end_ns, numbered_work.event_id) as place,
    numbered_work.event_id,
    numbered_work.track_id,
    numbered_work.device,
    numbered_work.stream,
    greatest(numbered_work.start_ns, path_window.start_ns) as start_ns,
    greatest(least(numbered_work.end_ns, path_window.end_ns), path_window.start_ns) as end_ns,
    numbered_work.runtime_id,
    numbered_work.call_track_id,
    numbered_work.call_ns,
    numbered_work.call_end_ns,
    numbered_work.call_dur_ns,
    numbered_work.launched_ns,
    numbered_work.is_awaited,
    numbered_work.is_earlier,
    numbered_work.from_last
from numbered_work
cross join path_window
where
    numbered_work.start_ns <= path_window.end_ns
    and (numbered_work.end_ns > path_window.start_ns or (numbered_work.is_earlier and numbered_work.from_last = 1))
