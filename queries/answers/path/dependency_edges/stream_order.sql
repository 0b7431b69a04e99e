-- One row per work of the window, with the previous work of its stream and the previous start on its device.
--
-- :reads path_window, rank_work, window_work
-- :only_with window_work
-- :column place BIGINT         number of the work, as in `window_work`
-- :column queue_place BIGINT   work of its stream with the latest end before the start; NULL if the window has no such
--                              work
-- :column queue_ns BIGINT      end of that earlier work, even if before the window; NULL for the first work of the
--                              stream
-- :column begun_place BIGINT   work of its device with the latest start before; NULL for the first work
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

-- one row per work, with the previous work of the stream and of the device
ordered_work as (
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

-- latest end on each stream before the window
earlier_end as (
    select
        rank_work.device,
        rank_work.stream,
        max(rank_work.end_ns) as end_ns
    from rank_work
    cross join path_window
    where rank_work.end_ns <= path_window.start_ns
    group by rank_work.device, rank_work.stream
)

-- Work without a duration ends at its start, so it may be the previous work even if other work ended later.
select
    ordered_work.place,
    case
        when
            ordered_work.last_end_ns <= ordered_work.start_ns
            and ordered_work.last_end_ns >= coalesce(stream_ending.end_ns, ordered_work.last_end_ns)
            then ordered_work.last_place
        else stream_ending.place
    end as queue_place,
    case
        when
            ordered_work.last_end_ns <= ordered_work.start_ns
            and ordered_work.last_end_ns >= coalesce(stream_ending.end_ns, ordered_work.last_end_ns)
            then ordered_work.last_end_ns
        else coalesce(stream_ending.end_ns, earlier_end.end_ns)
    end as queue_ns,
    ordered_work.begun_place
from ordered_work
left join earlier_end on ordered_work.device = earlier_end.device and ordered_work.stream = earlier_end.stream
asof left join stream_ending
    on
        ordered_work.device = stream_ending.device
        and ordered_work.stream = stream_ending.stream
        and ordered_work.start_ns >= stream_ending.end_ns
