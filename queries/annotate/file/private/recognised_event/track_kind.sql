-- Kind of events on a track, by the track's name, process or shape, for files without categories.
--
-- The first matching rule of `rules/track_kinds.csv` counts. Without a matching rule, a track belongs to a device if
-- every event names a stream. Names are compared without digits: many devices take no longer than one.
--
-- :reads event, event_args, track, event_categories, track_kinds
-- :column track_id BIGINT        thread or stream
-- :column kind VARCHAR           host, calls, device, ops, summary or unknown_device; NULL if unknown
-- :column device DEVICE          NULL for the host
-- :column stream BIGINT          stream number, unique on the device; NULL for the host
-- :column device_name VARCHAR    device name; NULL without a rule
-- :column host_track_id BIGINT   for calls, the calling thread of the program; NULL if absent
-- :column has_category BOOLEAN   some events of the process have a known category
with used_track as (
    -- Tracks with events that may have a duration.
    select
        event.track_id,
        bool_or(event_categories.category is not null) as has_category,
        bool_and(coalesce(
            json_extract_string(event_args.args, '$.stream') is not null
            or json_extract_string(event_args.args, '$."stream id"') is not null
            or json_extract_string(event_args.args, '$."Physic Stream Id"') is not null,
            false
        )) as has_streams
    from event
    left join event_args on event.event_id = event_args.event_id
    left join event_categories on event.category = event_categories.spelling
    where event.ph in ('X', 'B') and event.track_id is not null
    group by event.track_id
),

named_track as (
    select
        track.track_id,
        track.pid,
        track.tid,
        track.process_name,
        track.process_label,
        track.thread_name,
        bool_or(used_track.has_category) over (partition by track.pid) as has_category,
        used_track.has_streams,
        regexp_replace(coalesce(track.process_name, ''), '\d+', '0', 'g') as process_shape,
        regexp_replace(coalesce(track.process_label, ''), '\d+', '0', 'g') as label_shape,
        regexp_replace(coalesce(track.thread_name, track.tid, ''), '\d+', '0', 'g') as thread_shape
    from track
    inner join used_track on track.track_id = used_track.track_id
),

shape as (
    select distinct
        process_shape,
        label_shape,
        thread_shape
    from named_track
),

-- The rule used for each shape.
shape_rule as (
    select
        shape.*,
        arg_min({'kind': rule.kind, 'device': rule.device}, rule.position) as rule
    from shape
    inner join track_kinds as rule
        on
            (rule.process is null or regexp_matches(shape.process_shape, rule.process))
            and (rule.label is null or regexp_matches(shape.label_shape, rule.label))
            and (rule.thread is null or regexp_matches(shape.thread_shape, rule.thread))
    group by shape.process_shape, shape.label_shape, shape.thread_shape
),

ruled_track as (
    select
        named_track.*,
        coalesce(shape_rule.rule.kind, case when named_track.has_streams then 'device' end) as kind,
        shape_rule.rule.device as device_name
    from named_track
    left join shape_rule
        on
            named_track.process_shape = shape_rule.process_shape
            and named_track.label_shape = shape_rule.label_shape
            and named_track.thread_shape = shape_rule.thread_shape
),

-- Tracks of devices. Processes with the same name and no number are separate devices.
device_track as (
    select
        track_id,
        coalesce(
            try_cast(
                regexp_extract(process_name, '(?i)(?:device|[gntxhmi]pu|aiu)[ :#_]?(?:device)?[ :#_]?(\d+)', 1)
                as bigint
            ),
            try_cast(regexp_extract(process_label, '(\d+)$', 1) as bigint),
            dense_rank() over (partition by process_shape order by try_cast(pid as bigint), pid) - 1
        ) as device,
        coalesce(
            try_cast(regexp_extract(thread_name, '(?i)stream[ #:_]*(\d+)', 1) as bigint),
            try_cast(tid as bigint),
            track_id
        ) as stream,
        thread_name
    from ruled_track
    where kind in ('device', 'ops')
),

-- Streams with new numbers where several streams of a device share a number.
numbered_track as (
    select
        track_id,
        device,
        stream + 1000 * (
            row_number() over (
                partition by device, stream
                order by (regexp_matches(thread_name, '(?i)^stream')) desc nulls last, track_id
            ) - 1
        ) as stream
    from device_track
),

-- Threads of the program, one per thread number.
host_thread as (
    select
        tid,
        arg_min(track_id, (kind is distinct from 'host', track_id)) as track_id
    from ruled_track
    where (kind = 'host' or (kind is null and has_category)) and tid is not null
    group by tid
)

select
    ruled_track.track_id,
    -- A track that repeats the streams of its device counts only if the device has no streams.
    case
        when
            ruled_track.kind = 'ops' and ruled_track.pid in (
                select pid from ruled_track as other where other.kind = 'device' and other.pid is not null
            )
            then 'summary'
        else ruled_track.kind
    end as kind,
    numbered_track.device,
    numbered_track.stream,
    ruled_track.device_name,
    case when ruled_track.kind = 'calls' then host_thread.track_id end as host_track_id,
    ruled_track.has_category
from ruled_track
left join numbered_track on ruled_track.track_id = numbered_track.track_id
left join host_thread on ruled_track.tid = host_thread.tid
