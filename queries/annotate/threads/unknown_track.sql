-- Tracks without an event of a known kind, by category of the events.
--
-- These events do not count as work of a GPU. On tracks of a device and for asynchronous events, they do not count as
-- work of a CPU either.
--
-- :reads event, name_info, event_categories
-- :column track_id BIGINT      thread or stream; NULL if the events name none
-- :column category VARCHAR     category of the events as in the file; NULL if absent
-- :column kind VARCHAR         device, async (events with separate begins and ends), or thread for all others
-- :column event_count BIGINT   events with a duration
-- :column time_ns BIGINT       sum of the durations
-- :column busy_ns BIGINT       time with at least one event running
-- :column start_ns BIGINT      start of the first event
-- :column end_ns BIGINT        end of the last event
-- :column event_id BIGINT      the longest event
with unknown_category as (
    select distinct coalesce(name_info.category, '') as category
    from name_info
    anti join event_categories on name_info.category = event_categories.spelling
    where name_info.category is distinct from 'device_summary'
),

unnamed_event as (
    select
        event.event_id,
        event.track_id,
        coalesce(event.raw_category, case when event.category != 'device_unknown' then event.category end) as category,
        case when event.category = 'device_unknown' then 'device' when event.ph = 'b' then 'async' else 'thread' end
            as kind,
        event.start_ns,
        event.end_ns,
        event.dur_ns
    from event
    inner join unknown_category on coalesce(event.category, '') = unknown_category.category
    where event.dur_ns is not null
),

known_track as (
    select distinct event.track_id
    from event
    inner join event_categories on event.category = event_categories.spelling
    where
        event.dur_ns is not null
        and event.category not in ('trace', 'hotline')
        and event.track_id in (select track_id from unnamed_event)
),

unknown_event as (
    select * from unnamed_event
    where kind = 'device' or track_id is null or track_id not in (select track_id from known_track)
),

-- Events, with the latest end of all earlier events.
event_so_far as (
    select
        *,
        max(end_ns) over (
            partition by track_id, kind, category order by start_ns, event_id
            rows between unbounded preceding and 1 preceding
        ) as reached_ns
    from unknown_event
)

select
    track_id,
    category,
    kind,
    count(*) as event_count,
    sum(dur_ns)::bigint as time_ns,
    sum(greatest(0, end_ns - greatest(start_ns, coalesce(reached_ns, start_ns))))::bigint as busy_ns,
    min(start_ns) as start_ns,
    max(end_ns) as end_ns,
    arg_max(event_id, (dur_ns, -event_id)) as event_id
from event_so_far
group by track_id, category, kind
order by start_ns, track_id, category, kind
