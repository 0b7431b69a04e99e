-- Events without a category, with a category derived from the track and the name. The importer stores the result.
--
-- PyTorch's profiler writes a category for each event. Other writers (torch_npu, XLA, tracers of other devices)
-- describe an event only by process, thread and name. The rules are data: `rules/track_kinds.csv` maps tracks to kinds,
-- and `rules/track_events.csv` maps events on these tracks to categories. A process with an event of a known category
-- comes from PyTorch's profiler, and its events are not changed. Unknown categories on threads of a program are not
-- changed either.
--
-- Runtime calls shown as a separate process are moved to the calling thread. If ops contain ops on a device's track,
-- the outer ops are marks rather than work. `correlation_id` and `connection_id` link work to its call. Both may start
-- at 0, reserved for "no number"; 1 is therefore added.
--
-- :reads event, event_args, event_categories, track_kind, track_events, asked_work
-- :column event_id BIGINT      the event
-- :column category VARCHAR     derived category
-- :column track_id BIGINT      track
-- :column correlation BIGINT   number linking work to its call; NULL if absent
-- :column external_id BIGINT   number linking an op and its work; NULL if absent
-- :column device DEVICE        NULL for events other than device work
-- :column stream BIGINT        stream number; NULL for events other than device work
-- :column device_name VARCHAR  device name; NULL without a rule
with plain_event as (
    -- Events without a known category on recognised tracks.
    select
        event.event_id,
        coalesce(track_kind.host_track_id, event.track_id) as track_id,
        event.name,
        event.start_ns,
        event.end_ns,
        event.correlation,
        track_kind.kind,
        track_kind.device,
        track_kind.stream,
        track_kind.device_name,
        json_extract_string(event_args.args, '$."Task Type"') as task,
        try_cast(coalesce(
            json_extract_string(event_args.args, '$.correlation_id'),
            json_extract_string(event_args.args, '$.connection_id')
        ) as bigint) as number,
        regexp_replace(event.name, '\d+', '0', 'g') as name_shape
    from event
    inner join track_kind on event.track_id = track_kind.track_id and track_kind.kind is not null
    left join event_args on event.event_id = event_args.event_id
    anti join event_categories on event.category = event_categories.spelling
    where
        event.ph in ('X', 'B')
        and not track_kind.has_category
        and (event.category is null or track_kind.kind not in ('host', 'calls'))
),

shape as (
    select distinct
        kind,
        name_shape,
        task
    from plain_event
),

-- The category from the first matching rule, per shape.
shape_rule as (
    select
        shape.kind,
        shape.name_shape,
        shape.task,
        arg_min(rule.category, rule.position) as category
    from shape
    inner join track_events as rule
        on
            shape.kind = rule.track_kind
            and (rule.name is null or regexp_matches(shape.name_shape, rule.name))
            and (rule.task is null or coalesce(regexp_matches(shape.task, rule.task), false))
    group by shape.kind, shape.name_shape, shape.task
),

-- Whether an op contains the next event of the track.
op_on_track as (
    select
        event_id,
        coalesce(
            lead(start_ns) over in_order < end_ns and lead(end_ns) over in_order <= end_ns, false
        ) as has_inner
    from plain_event
    where kind = 'ops' and end_ns is not null
    window in_order as (partition by track_id order by start_ns, end_ns desc, event_id)
),

categorised_event as (
    select
        plain_event.event_id,
        case when op_on_track.has_inner then 'gpu_user_annotation' else shape_rule.category end as category,
        plain_event.track_id,
        coalesce(plain_event.correlation, plain_event.number + 1) as correlation,
        case when shape_rule.category in ('kernel', 'gpu_memcpy', 'gpu_memset') then plain_event.device end as device,
        case when shape_rule.category in ('kernel', 'gpu_memcpy', 'gpu_memset') then plain_event.stream end as stream,
        plain_event.device_name
    from plain_event
    inner join shape_rule
        on
            plain_event.kind = shape_rule.kind
            and plain_event.name_shape is not distinct from shape_rule.name_shape
            and plain_event.task is not distinct from shape_rule.task
    left join op_on_track on plain_event.event_id = op_on_track.event_id
)

-- Ops get a number and keep all other values.
select
    coalesce(categorised_event.event_id, asked_work.event_id) as event_id,
    categorised_event.category,
    categorised_event.track_id,
    categorised_event.correlation,
    asked_work.external_id,
    categorised_event.device,
    categorised_event.stream,
    categorised_event.device_name
from categorised_event
full outer join asked_work on categorised_event.event_id = asked_work.event_id
order by event_id
