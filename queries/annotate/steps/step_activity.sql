-- What the main thread does in each step: its time by phase and activity, and the time in regions of the user.
--
-- The rows without a region add up to the step's time on the CPU. A region is an annotation that marks neither a step
-- nor a phase nor a collective; numbers in its name are replaced by `#`, so that `epoch 3` and `epoch 4` are one
-- region. The time of a region counts in the row of the region and in the rows of phases.
--
-- :reads host_activity, main_track, step, cpu_span, nesting, name_class, event
-- :column step BIGINT       the step
-- :column phase VARCHAR     the phase; `other` without one; NULL for a region
-- :column activity VARCHAR  what the thread does, as in `host_activity`; NULL for a region
-- :column region VARCHAR    the region; NULL for phases
-- :column time_ns BIGINT    the time
with main_piece as (
    select
        host_activity.step,
        coalesce(host_activity.phase, 'other') as phase,
        host_activity.kind as activity,
        coalesce(host_activity.end_ns, host_activity.start_ns) - host_activity.start_ns as time_ns
    from host_activity
    where host_activity.step is not null and host_activity.track_id in (select track_id from main_track)
),

-- One row per annotation of the user, without the annotations around it of the same name.
region_call as (
    select
        nesting.start_ns,
        nesting.end_ns,
        regexp_replace(event.name, '\d+', '#', 'g') as region
    from cpu_span
    inner join event on cpu_span.event_id = event.event_id
    inner join nesting on cpu_span.event_id = nesting.event_id
    left join name_class on cpu_span.class_id = name_class.class_id
    where
        cpu_span.category = 'user_annotation'
        and nesting.track_id in (select track_id from main_track)
        and coalesce(name_class.strong_phase, name_class.weak_phase, name_class.bucket) is null
        and not ends_with(event.name, '(dynamo_timed)')
        and cpu_span.event_id not in (select event_id from step where event_id is not null)
    qualify is_outermost(
        nesting.start_ns, nesting.end_ns, regexp_replace(event.name, '\d+', '#', 'g'), nesting.depth
    )
)

select
    step,
    phase,
    activity,
    null as region,
    sum(time_ns)::bigint as time_ns
from main_piece
group by step, phase, activity
union all
select
    step.step,
    null,
    null,
    region_call.region,
    sum(least(region_call.end_ns, step.end_ns) - region_call.start_ns)::bigint
from region_call
asof inner join step on region_call.start_ns >= step.start_ns
where region_call.start_ns < step.end_ns
group by step.step, region_call.region
order by step, phase, activity, region
