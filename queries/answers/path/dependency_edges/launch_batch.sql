-- A row is what one call launches on one stream: one place in the stream's queue.
--
-- :reads rank_work
-- :only_with rank_work
-- :column device BIGINT       the device
-- :column stream BIGINT       the stream
-- :column launched_ns BIGINT  since when it waits
-- :column first_id BIGINT     the GPU event that starts first
-- :column last_id BIGINT      the GPU event that starts last
-- :column start_ns BIGINT     start of the first
-- :column end_ns BIGINT       when all of it is done
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
