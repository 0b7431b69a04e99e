-- One row per edge to the end of the window: from the last point of the main thread, and from each stream.
--
-- :takes end_ns, until
-- :reads path_thread, path_window, thread_point, window_work
-- :column from_id BIGINT       point of the main thread; NULL for an edge from GPU work
-- :column from_place BIGINT    number of the GPU work, as in `window_work`; the edge starts at its end; NULL for an
--                              edge from the thread
-- :column binds BOOLEAN        the end of the window waited for this edge
-- :column start_ns BIGINT      observed time of the source
-- :column end_ns BIGINT        end of the window
-- :column weight_ns BIGINT     least time between source and end
with main_thread as (
    select track_id
    from path_thread
    where is_main
),

last_point as (
    select
        coalesce(arg_max(thread_point.node_id, thread_point.at_ns), 0) as from_id,
        greatest(coalesce(max(thread_point.at_ns), 0), any_value(path_window.start_ns)) as at_ns
    from main_thread
    cross join path_window
    left join thread_point on main_thread.track_id = thread_point.track_id
    where path_window.end_ns > path_window.start_ns
    having count(*) > 0
),

last_work as (
    select arg_max(place, (end_ns, place)) as place
    from window_work
    where not is_earlier
),

-- One row per stream.
last_of_stream as (
    select
        arg_max(window_work.place, (window_work.end_ns, window_work.place)) as place,
        max(window_work.end_ns) as end_ns,
        bool_or(window_work.place = last_work.place) as is_last
    from window_work
    cross join last_work
    where not window_work.is_earlier
    group by window_work.device, window_work.stream
)

select
    last_point.from_id,
    null::bigint as from_place,
    last_point.at_ns = path_window.end_ns as binds,
    last_point.at_ns as start_ns,
    path_window.end_ns,
    0::bigint as weight_ns
from last_point
cross join path_window
union all
select
    null,
    last_of_stream.place,
    last_of_stream.is_last
    and (
        alone.has_no_thread or (last_of_stream.end_ns = path_window.end_ns and path_window.end_ns > $end_ns)
    ),
    last_of_stream.end_ns as work_end_ns,
    path_window.end_ns,
    case
        when last_of_stream.is_last and alone.has_no_thread then path_window.end_ns - last_of_stream.end_ns
        else 0
    end
from last_of_stream
cross join path_window
cross join (select count(*) = 0 as has_no_thread from main_thread) as alone
where $until != 'host' or alone.has_no_thread
