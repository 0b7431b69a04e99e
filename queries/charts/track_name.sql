-- Readable name of each thread and stream of the file.
--
-- A stream is named by its number, after the number of its device if the rank has several devices. A thread is named by
-- its name without Kineto's number prefix, followed by its number if another thread has the same name. A thread without
-- a name is named by its number.
--
-- :param rank BIGINT = NULL       only this rank
-- :reads event, gpu_op, track
-- :column rank RANK
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

named_track as (
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

equal_name as (
    select
        rank,
        name,
        count(*) as n
    from named_track
    where has_name
    group by rank, name
)

select
    named_track.rank,
    named_track.track_id,
    if(named_track.is_stream, 'gpu', 'cpu') as device,
    if(equal_name.n > 1, named_track.name || ' ' || named_track.tid, named_track.name) as name
from named_track
left join equal_name
    on named_track.rank = equal_name.rank and named_track.name = equal_name.name and named_track.has_name
order by named_track.rank, named_track.track_id
