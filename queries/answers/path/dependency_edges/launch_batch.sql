-- One row per call and stream: the GPU events launched together, which take one slot of the stream's queue.
--
-- :reads rank_work
-- :only_with rank_work
-- :column device DEVICE
-- :column stream BIGINT       stream
-- :column launched_ns BIGINT  time at which the batch entered the queue
-- :column first_id BIGINT     first GPU event to start
-- :column last_id BIGINT      last GPU event to start
-- :column start_ns BIGINT     start of the first GPU event
-- :column end_ns BIGINT       end of all GPU events
select
    device,
    stream,
    launched_ns,
    arg_min(event_id, (start_ns, end_ns, event_id)) as first_id,
    arg_max(event_id, (start_ns, end_ns, event_id)) as last_id,
    min(start_ns) as start_ns,
    max(end_ns) as end_ns
from rank_work
group by device, stream, launched_ns
