-- Events on tracks of unknown kind, by category and name: number and time.
--
-- An example is the requests of a server, in a file without events of PyTorch's profiler. The result is empty if all
-- tracks are known.
--
-- :param rank BIGINT = NULL        only this rank
-- :param limit BIGINT >= 0 = 10    maximum number of names
-- :reads unknown_track, event
-- :column rank RANK
-- :column category VARCHAR         category as in the file; NULL without a category
-- :column name VARCHAR             name of the events
-- :column count BIGINT             number of events with a duration
-- :column time_ns BIGINT           sum of the durations
-- :column mean_ns BIGINT           mean duration
-- :column min_ns BIGINT            shortest duration
-- :column max_ns BIGINT            longest duration
-- :column event_id BIGINT          the longest event

-- one row per event with a duration on a track of unknown kind
with span as (
    select
        event.rank,
        unknown_track.category,
        event.name,
        event.dur_ns,
        event.event_id
    from event
    inner join unknown_track
        on
            event.rank = unknown_track.rank
            and event.track_id is not distinct from unknown_track.track_id
            and coalesce(event.raw_category, nullif(event.category, 'device_unknown'))
            is not distinct from unknown_track.category
    where
        event.dur_ns is not null
        and event.category is distinct from 'device_summary'
        and is_asked($rank, event.rank)
)

select
    rank,
    category,
    name,
    count(*) as count,
    sum(dur_ns)::bigint as time_ns,
    (sum(dur_ns) // count(*))::bigint as mean_ns,
    min(dur_ns) as min_ns,
    max(dur_ns) as max_ns,
    arg_max(event_id, (dur_ns, -event_id)) as event_id
from span
group by rank, category, name
qualify row_number() over (partition by rank order by sum(dur_ns) desc, min(event_id)) <= $limit
order by rank, time_ns desc, event_id
