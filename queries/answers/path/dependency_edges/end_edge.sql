-- A row is an edge to the window's end: from where the main thread and each stream are then.
--
-- :takes end_ns, until
-- :reads path_thread, path_window, thread_point, window_work
-- :column from_id BIGINT       the main thread's point; NULL where the edge comes from GPU work
-- :column from_place BIGINT    number of this work, as in `window_work`, from whose end the edge comes; NULL for the
--                              thread
-- :column binds BOOLEAN        the edge is what the window's end waited for
-- :column start_ns BIGINT      when the first was observed
-- :column end_ns BIGINT        the end of the window
-- :column weight_ns BIGINT     the least time between both
with main as (
    select track_id
    from path_thread
    where is_main
),

last_point as (
    select
        coalesce(arg_max(thread_point.node_id, thread_point.at_ns), 0) as from_id,
        greatest(coalesce(max(thread_point.at_ns), 0), any_value(path_window.start_ns)) as at_ns
    from main
    cross join path_window
    left join thread_point on main.track_id = thread_point.track_id
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
cross join (select count(*) = 0 as has_no_thread from main) as alone
where $until != 'host' or alone.has_no_thread
