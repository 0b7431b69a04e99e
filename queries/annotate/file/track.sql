-- Threads and streams with their names, from metadata events.
--
-- :reads event, event_args, track_key
-- :column track_id BIGINT        number within the rank, in order of first appearance
-- :column pid VARCHAR            process id in the file; a device number or a word for some rows
-- :column tid VARCHAR            thread id in the file; a stream number for GPU tracks
-- :column process_name VARCHAR   name of the process; NULL if absent
-- :column process_label VARCHAR  label of the process, like `GPU 0`; NULL if absent
-- :column thread_name VARCHAR    name of the thread or stream; NULL if absent
with name_event as (
    -- Metadata events with the name of a process or thread; the last event counts.
    select
        track_key.pid,
        track_key.tid,
        event.name as field,
        coalesce(json_extract_string(event_args.args, '$.name'), json_extract_string(event_args.args, '$.labels'))
            as value,
        event.event_id
    from event
    inner join event_args on event.event_id = event_args.event_id
    inner join track_key on event.track_id = track_key.track_id
    where event.ph = 'M' and event.name in ('process_name', 'process_labels', 'thread_name')
),

process as (
    select
        pid,
        arg_max(value, event_id) filter (where field = 'process_name') as process_name,
        arg_max(value, event_id) filter (where field = 'process_labels') as process_label
    from name_event
    group by pid
),

thread as (
    select
        pid,
        tid,
        arg_max(value, event_id) filter (where field = 'thread_name') as thread_name
    from name_event
    group by pid, tid
)

select
    track_key.track_id,
    track_key.pid,
    track_key.tid,
    process.process_name,
    process.process_label,
    thread.thread_name
from track_key
left join process on track_key.pid = process.pid
left join thread on track_key.pid = thread.pid and track_key.tid = thread.tid
order by track_key.track_id
