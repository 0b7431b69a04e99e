-- Queue length of each stream: mean, time empty, time full, and host time lost to a full queue.
--
-- Lengths are weighted by time, from the first launch to the last start of work. NVIDIA's queue takes about 1,022
-- launches; each further call waits for the start of earlier work. The default limit is a little lower. `blocked_ns` is
-- the duration of calls into a full queue above the stream's median call. It is near 0 if the queue was not full (AMD's
-- queue is longer). An interval is attributed to the step at its start.
--
-- :param rank BIGINT = NULL                    only this rank
-- :param device BIGINT = NULL                  only this device
-- :param stream BIGINT = NULL                  only this stream
-- :param step BIGINT = NULL                    only intervals starting while this step runs on the CPU
-- :param phase PHASE = NULL                    only intervals starting while the main thread is in this phase
-- :param max_queue_length BIGINT >= 1 = 1000   number of launches in a full queue
-- :reads queue_change, gpu_event
-- :column rank RANK
-- :column device DEVICE                   -1 without a device
-- :column stream BIGINT                   stream; -1 if the events have no stream
-- :column launch_count BIGINT             launches entering the queue
-- :column observed_ns BIGINT              time with a known length
-- :column empty_ns BIGINT                 time with an empty queue
-- :column full_ns BIGINT                  time with at least `max_queue_length` waiting launches
-- :column full_pct DOUBLE                 time with a full queue as a share of the observed time; NULL without observed
--                                         time
-- :column full_launch_count BIGINT        launches into a full queue
-- :column full_call_ns BIGINT             duration of the calls into a full queue
-- :column blocked_ns BIGINT               part of `full_call_ns` above the median call of the stream
-- :column mean_length DOUBLE              mean length over time; NULL without observed time
-- :column median_length BIGINT            time-weighted median length
-- :column p95_length BIGINT               time-weighted 95th percentile of the length
-- :column max_length BIGINT               largest length
-- :column max_id BIGINT                   launching call at which the maximum was first reached; NULL if the step began
--                                         at the maximum

-- one row per stream: the median duration of a launching call
with usual_call as (
    select
        rank,
        device,
        stream,
        median(launch_dur_ns) as call_ns
    from (
        select distinct
            rank,
            device,
            stream_of(stream) as stream,
            runtime_id,
            launch_dur_ns
        from gpu_event
        where runtime_id is not null
    )
    group by rank, device, stream
),

-- one row per selected interval of constant length
chosen_interval as (
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

length_time as (
    select
        rank,
        device,
        stream,
        queue_length,
        sum(dur_ns) as dur_ns
    from chosen_interval
    group by rank, device, stream, queue_length
),

ranked_length as (
    select
        rank,
        device,
        stream,
        queue_length,
        sum(dur_ns) over (partition by rank, device, stream order by queue_length) as up_to_ns,
        sum(dur_ns) over (partition by rank, device, stream) as total_ns
    from length_time
),

quantile as (
    select
        rank,
        device,
        stream,
        min(queue_length) filter (where 2 * up_to_ns >= total_ns) as median_length,
        min(queue_length) filter (where 100 * up_to_ns >= 95 * total_ns) as p95_length
    from ranked_length
    group by rank, device, stream
),

-- one row per stream: times, launches and calls
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
    from chosen_interval
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
    greatest(0, total.full_call_ns - round(total.full_launch_count * usual_call.call_ns))::bigint as blocked_ns,
    total.mean_length,
    quantile.median_length::bigint as median_length,
    quantile.p95_length::bigint as p95_length,
    total.max_length,
    total.max_id
from total
inner join quantile
    on total.rank = quantile.rank and total.device = quantile.device and total.stream = quantile.stream
inner join usual_call
    on total.rank = usual_call.rank and total.device = usual_call.device and total.stream = usual_call.stream
order by total.rank, total.device, total.stream
