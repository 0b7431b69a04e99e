-- Durations of asynchronous events (`ph` b and e), stored by the importer for files without other durations.
--
-- A begin and an end are paired if category, id and process are equal. Among several open begins, an end closes the
-- last begin one level up, as in `begin_end`. Begin and end may be on different threads.
--
-- :reads event, event_args, track_key
-- :column event_id BIGINT  event of the begin
-- :column dur_ns BIGINT    time from begin to end
-- :column end_ns BIGINT    time of the end
with edge as ( -- noqa: ST03
    -- Begins and ends, with the fields equal within a pair.
    select
        event.event_id,
        event.start_ns,
        event.ph = 'b' as opens,
        (
            event.category,
            track_key.pid,
            coalesce(
                json_extract_string(event_args.fields, '$.id'),
                json_extract_string(event_args.fields, '$.id2.local'),
                json_extract_string(event_args.fields, '$.id2.global')
            )
        ) as identity
    from event
    left join track_key on event.track_id = track_key.track_id
    left join event_args on event.event_id = event_args.event_id
    where event.ph in ('b', 'e') and event.start_ns is not null
)

select * from paired_edges('edge', identity)
order by event_id
