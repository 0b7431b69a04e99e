-- Tracks with events of unknown kind, and their time, which is left out of all GPU results.
--
-- No rule matches their device or writer (`rules/track_kinds.csv`). The result is empty if all tracks are known.
--
-- :param rank BIGINT = NULL     only this rank
-- :reads unknown_track, track, event
-- :column rank RANK
-- :column track VARCHAR         name of the track: its process and thread
-- :column kind VARCHAR          device, async (events that begin and end on their own), or thread for all other tracks
-- :column category VARCHAR      category of the events as in the file; NULL without a category
-- :column event_count BIGINT    events with a duration
-- :column time_ns BIGINT        sum of the durations
-- :column busy_ns BIGINT        time with at least one running event
-- :column start_ns BIGINT       start of the first event
-- :column end_ns BIGINT         end of the last event
-- :column event_id BIGINT       the longest event
-- :column name VARCHAR          name of the longest event
select
    unknown_track.rank,
    concat_ws(
        ' / ',
        coalesce(track.process_name, track.process_label, 'process ' || track.pid),
        coalesce(track.thread_name, 'thread ' || track.tid)
    ) as track,
    unknown_track.kind,
    unknown_track.category,
    unknown_track.event_count,
    unknown_track.time_ns,
    unknown_track.busy_ns,
    unknown_track.start_ns,
    unknown_track.end_ns,
    unknown_track.event_id,
    event.name
from unknown_track
left join track on unknown_track.rank = track.rank and unknown_track.track_id = track.track_id
left join event on unknown_track.rank = event.rank and unknown_track.event_id = event.event_id
where is_asked($rank, unknown_track.rank)
order by unknown_track.rank, unknown_track.busy_ns desc, unknown_track.event_id
