-- Durations of events given as separate begin and end (`ph` B and E): an end closes the last begin one level up.
--
-- :reads event
-- :column event_id BIGINT  event of the begin
-- :column dur_ns BIGINT    time from begin to end
-- :column end_ns BIGINT    time of the end
with edge as ( -- noqa: ST03
    select
        event_id,
        track_id,
        start_ns,
        ph = 'B' as opens
    from event
    where ph in ('B', 'E') and start_ns is not null
)

select * from paired_edges('edge', track_id)
order by event_id
