-- How long each stream's queue was, how long it was empty, how long it was full, and what that cost the host.
--
-- Time-weighted: a length counts for as long as it lasts, from the first launch to the last start of work. NVIDIA's
-- queue takes about 1,022 launches, then each further call waits for one to start: the default is a little below.
-- `blocked_ns` is what calls into a full queue took beyond the median call of the stream, so it is near 0 where such a
-- queue is not full (AMD's takes more). A stretch counts to the step in which it begins.
--
-- :param rank BIGINT = NULL                    only this rank
-- :param device BIGINT = NULL                  only this device
-- :param stream BIGINT = NULL                  only this stream
-- :param step BIGINT = NULL                    only stretches that begin while this step runs on the CPU
-- :param phase PHASE = NULL
--                                              only stretches that begin while the main thread is in this phase
-- :param max_queue_length BIGINT >= 1 = 1000   launches that fill the queue
-- :reads queue_change, launch, gpu_op
-- :column rank BIGINT                     process rank
-- :column device BIGINT                   device number; -1 when the events name none
-- :column stream BIGINT                   stream; -1 when the events name none
-- :column launch_count BIGINT             launches that entered the queue
-- :column observed_ns BIGINT              time in which the length is known
-- :column empty_ns BIGINT                 time in which nothing waited
-- :column full_ns BIGINT                  time in which at least `max_queue_length` launches waited
-- :column full_pct DOUBLE                 share of the observed time; NULL without any
-- :column full_launch_count BIGINT        launches into a full queue
-- :column full_call_ns BIGINT             duration of their calls
-- :column blocked_ns BIGINT               of it, beyond the median call of the stream
-- :column mean_length DOUBLE              mean length over time; NULL without observed time
-- :column median_length BIGINT            length that was not exceeded for half of the time
-- :column p95_length BIGINT               length that was not exceeded for 95 % of the time
-- :column max_length BIGINT               largest length
-- :column max_id BIGINT                   the launching call that reached it first; NULL when the step began with it
with usual as (
    select
        rank,
        device,
        stream,
        median(launch_dur_ns) as call_ns
    from (
        select distinct
            launch.rank,
            device_of(gpu_op.device) as device,
            stream_of(gpu_op.stream) as stream,
            launch.runtime_id,
            launch.launch_dur_ns
        from launch
        inner join gpu_op on launch.rank = gpu_op.rank and launch.event_id = gpu_op.event_id
        where launch.runtime_id is not null
    )
    group by rank, device, stream
),

chosen as (
    select
        *,
        end_ns - start_ns as dur_ns
    from queue_change
    where
        is_asked($rank, rank)
        and is_asked($device, device)
        and is_asked($stream, stream)
        and is_asked($step, step)
        and is_asked($phase, phase)
),

by_length as (
    select
        rank,
        device,
        stream,
        queue_length,
        sum(dur_ns) as dur_ns
    from chosen
    group by rank, device, stream, queue_length
),

ranked as (
    select
        rank,
        device,
        stream,
        queue_length,
        sum(dur_ns) over (partition by rank, device, stream order by queue_length) as up_to_ns,
        sum(dur_ns) over (partition by rank, device, stream) as total_ns
    from by_length
),

quantile as (
    select
        rank,
        device,
        stream,
        min(queue_length) filter (where 2 * up_to_ns >= total_ns) as median_length,
        min(queue_length) filter (where 100 * up_to_ns >= 95 * total_ns) as p95_length
    from ranked
    group by rank, device, stream
),

total as (
    select
        rank,
        device,
        stream,
        sum(launch_count)::bigint as launch_count,
        sum(dur_ns)::bigint as observed_ns,
        coalesce(sum(dur_ns) filter (where queue_length = 0), 0)::bigint as empty_ns,
        coalesce(sum(dur_ns) filter (where queue_length >= $max_queue_length), 0)::bigint as full_ns,
        coalesce(sum(launch_count) filter (where queue_length > $max_queue_length), 0)::bigint as full_launch_count,
        coalesce(sum(call_ns) filter (where queue_length > $max_queue_length), 0)::bigint as full_call_ns,
        sum(queue_length::hugeint * dur_ns)::double / nullif(sum(dur_ns), 0) as mean_length,
        max(queue_length)::bigint as max_length,
        arg_max_null(launch_id, (queue_length, -start_ns)) as max_id
    from chosen
    group by rank, device, stream
)

select
    total.rank,
    total.device,
    total.stream,
    total.launch_count,
    total.observed_ns,
    total.empty_ns,
    total.full_ns,
    100.0 * total.full_ns / nullif(total.observed_ns, 0) as full_pct,
    total.full_launch_count,
    total.full_call_ns,
    greatest(0, total.full_call_ns - round(total.full_launch_count * usual.call_ns))::bigint as blocked_ns,
    total.mean_length,
    quantile.median_length::bigint as median_length,
    quantile.p95_length::bigint as p95_length,
    total.max_length,
    total.max_id
from total
inner join quantile
    on total.rank = quantile.rank and total.device = quantile.device and total.stream = quantile.stream
inner join usual on total.rank = usual.rank and total.device = usual.device and total.stream = usual.stream
order by total.rank, total.device, total.stream
