-- A row is work of the window, what its stream did last before it, and what the device began last before it.
--
-- :reads path_window, rank_work, window_work
-- :only_with window_work
-- :column place BIGINT         number of the work, as in `window_work`
-- :column queue_place BIGINT   the work of its stream that ended last before it starts; NULL if there is none in the
--                              window
-- :column queue_ns BIGINT      when that ended, also before the window; NULL if it is the first of its stream
-- :column begun_place BIGINT   the work of its device that started last before it; NULL for the first
with stream_ending as (
    select
        device,
        stream,
        end_ns,
        max(place) as place
    from window_work
    where end_ns > start_ns
    group by device, stream, end_ns
),

in_stream as (
    select
        place,
        device,
        stream,
        start_ns,
        lag(place) over (partition by device, stream order by place) as last_place,
        lag(end_ns) over (partition by device, stream order by place) as last_end_ns,
        lag(place) over (partition by device order by place) as begun_place
    from window_work
),

-- what each stream had done when the window starts
done_before as (
    select
        rank_work.device,
        rank_work.stream,
        max(rank_work.end_ns) as end_ns
    from rank_work
    cross join path_window
    where rank_work.end_ns <= path_window.start_ns
    group by rank_work.device, rank_work.stream
)

-- Work of no duration ends where it starts, so that it may be the last although another ended later.
select
    in_stream.place,
    case
        when
            in_stream.last_end_ns <= in_stream.start_ns
            and in_stream.last_end_ns >= coalesce(stream_ending.end_ns, in_stream.last_end_ns)
            then in_stream.last_place
        else stream_ending.place
    end as queue_place,
    case
        when
            in_stream.last_end_ns <= in_stream.start_ns
            and in_stream.last_end_ns >= coalesce(stream_ending.end_ns, in_stream.last_end_ns)
            then in_stream.last_end_ns
        else coalesce(stream_ending.end_ns, done_before.end_ns)
    end as queue_ns,
    in_stream.begun_place
from in_stream
left join done_before on in_stream.device = done_before.device and in_stream.stream = done_before.stream
asof left join stream_ending
    on
        in_stream.device = stream_ending.device
        and in_stream.stream = stream_ending.stream
        and in_stream.start_ns >= stream_ending.end_ns
