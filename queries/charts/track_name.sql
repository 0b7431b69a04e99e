-- What people call each thread and stream that something runs on.
--
-- A stream is told by its number, with that of the device where there are several. A thread has its name, without the
-- number that Kineto puts before it, and with its number behind it if another thread has the same name; else only its
-- number.
--
-- :param rank BIGINT = NULL       only this rank
-- :reads event, gpu_op, track
-- :column rank BIGINT             process rank
-- :column track_id BIGINT         the thread or stream
-- :column device VARCHAR          gpu or cpu
-- :column name VARCHAR            name for people
with stream as (
    select
        event.rank,
        event.track_id,
        min(gpu_op.device) as device_id,
        min(gpu_op.stream) as stream
    from gpu_op
    inner join event on gpu_op.rank = event.rank and gpu_op.event_id = event.event_id
    where event.track_id is not null and is_asked($rank, event.rank)
    group by event.rank, event.track_id
),

device_count as (
    select
        rank,
        count(distinct device_id) as n
    from stream
    group by rank
),

named as (
    select
        track.rank,
        track.track_id,
        track.tid,
        stream.track_id is not null as is_stream,
        stream.track_id is null and track.thread_name is not null as has_name,
        case
            when stream.track_id is null
                then coalesce(regexp_replace(track.thread_name, '^thread \d+ \((.+)\)$', '\1'), 'thread ' || track.tid)
            else
                case
                    when device_count.n > 1 then 'device ' || coalesce(stream.device_id::varchar, '?') || ', ' else ''
                end
                || 'stream ' || coalesce(stream.stream::varchar, '?')
        end as name
    from track
    left join stream on track.rank = stream.rank and track.track_id = stream.track_id
    left join device_count on track.rank = device_count.rank
    where is_asked($rank, track.rank)
),

alike as (
    select
        rank,
        name,
        count(*) as n
    from named
    where has_name
    group by rank, name
)

select
    named.rank,
    named.track_id,
    if(named.is_stream, 'gpu', 'cpu') as device,
    if(alike.n > 1, named.name || ' ' || named.tid, named.name) as name
from named
left join alike on named.rank = alike.rank and named.name = alike.name and named.has_name
order by named.rank, named.track_id
