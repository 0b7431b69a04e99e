-- One row per launch, with the number of pending launches on its stream at the start of its call.
--
-- :reads launch_batch
-- :only_with launch_batch
-- :column first_id BIGINT  first GPU event of the launch
-- :column pending BIGINT   number of other launches on the stream that have not started

-- one row per launch entering or leaving a queue
with change_of_queue as (
    select
        device,
        stream,
        launched_ns as at_ns,
        1 as change,
        first_id
    from launch_batch
    union all
    select
        device,
        stream,
        start_ns,
        -1,
        null
    from launch_batch
),

queue_length as (
    select
        first_id,
        sum(change) over (partition by device, stream order by at_ns, change rows unbounded preceding) - 1 as pending
    from change_of_queue
)

select
    first_id,
    pending::bigint as pending
from queue_length
where first_id is not null
