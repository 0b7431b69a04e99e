-- Time of the main thread in each step, by phase and activity, and time in the user's regions.
--
-- The rows without a region add up to the step's time on the CPU. A region is an annotation that does not mark a step,
-- a phase or a collective. Numbers in the name are replaced by `#`: `epoch 3` and `epoch 4` are one region. The time of
-- a region counts in the region's row and also in the rows of phases. Forward passes after the last backward pass and
-- optimizer of a step are the region `evaluation`, unless a region of the user begins there.
--
-- :reads host_activity, main_track, step, cpu_span, nesting, name_class, event, phase_span
-- :column step STEP
-- :column phase PHASE       `other` if unknown; NULL for a region
-- :column activity VARCHAR  activity of the thread, as in `host_activity`; NULL for a region
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

-- User annotations, except those inside an annotation of the same name.
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
        and not is_compile_mark(event.name)
        and cpu_span.event_id not in (select event_id from step where event_id is not null)
    qualify is_outermost(
        nesting.start_ns, nesting.end_ns, regexp_replace(event.name, '\d+', '#', 'g'), nesting.depth
    )
),

-- Phases of the main thread, with the step around the start.
phase_of_step as (
    select
        step.step,
        phase_span.phase,
        phase_span.start_ns,
        least(phase_span.end_ns, step.end_ns) as end_ns
    from phase_span
    asof inner join step on phase_span.start_ns >= step.start_ns
    where phase_span.is_main and phase_span.start_ns < step.end_ns
),

-- The end of the last backward pass or optimizer of each step with a backward pass.
last_update as (
    select
        step,
        max(end_ns) as end_ns
    from phase_of_step
    where phase in ('backward', 'clipping', 'optimizer')
    group by step
    having bool_or(phase = 'backward')
),

-- Stretches from the first to the last forward pass after the last update of a step.
evaluation as (
    select
        phase_of_step.step,
        any_value(last_update.end_ns) as update_ns,
        min(phase_of_step.start_ns) as start_ns,
        max(phase_of_step.end_ns) as end_ns
    from phase_of_step
    inner join last_update
        on phase_of_step.step = last_update.step and phase_of_step.start_ns >= last_update.end_ns
    where phase_of_step.phase in ('forward', 'loss')
    group by phase_of_step.step
    having bool_or(phase_of_step.phase = 'forward')
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
union all
select
    step,
    null,
    null,
    'evaluation',
    (end_ns - start_ns)::bigint
from evaluation
where
    not exists (
        from region_call
        where region_call.start_ns >= evaluation.update_ns and region_call.start_ns < evaluation.end_ns
    )
order by step, phase, activity, region
