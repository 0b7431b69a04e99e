-- One row per slice of a thread (annotation, op, call, or module call), with the loop's phase around the slice.
--
-- A slice belongs to the latest phase of the same name started by the loop before the slice. Two kinds of annotations
-- on the loop's thread are left out: annotations longer than their phase (not informative about the phase) and the
-- annotation of the phase itself (redundant).
--
-- :takes rank, step, dominant_pct
-- :reads cpu_event, loop_phase, module_slice, step, viewed_step
-- :column rank RANK
-- :column step STEP           -1 outside every step
-- :column phase VARCHAR       phase; `outside_steps` if unknown
-- :column home_id BIGINT      phase of the loop; NULL if the loop started no phase of this name before the slice
-- :column track_id BIGINT     the thread
-- :column start_ns BIGINT     start of the slice
-- :column end_ns BIGINT       end of the slice
-- :column kind VARCHAR        annotation, op, call or module
-- :column name VARCHAR        full name
-- :column short_name VARCHAR  name for people
-- :column type VARCHAR        class of a module (NULL if unknown); the short name of other slices
-- :column event_id BIGINT     event; NULL for a module without an event
-- :column module_id BIGINT    module; NULL if unknown
-- :column pass VARCHAR        forward, backward or recompute; NULL if the module is unknown
-- :column layer BIGINT        of slices with equal times, the slice with the lower number is the outer slice

-- one row per annotation, op or call on a thread
with cpu_slice as (
    select
        cpu_event.rank,
        coalesce(cpu_event.step, -1) as step,
        coalesce(cpu_event.phase, 'outside_steps') as phase,
        cpu_event.track_id,
        cpu_event.start_ns,
        cpu_event.end_ns,
        case cpu_event.category when 'user_annotation' then 'annotation' when 'cpu_op' then 'op' else 'call' end
            as kind,
        cpu_event.name,
        cpu_event.short_name,
        cpu_event.event_id,
        cpu_event.module_id,
        cpu_event.pass
    from cpu_event
    left join step as marked on cpu_event.rank = marked.rank and cpu_event.event_id = marked.event_id
    where
        cpu_event.category in ('cpu_op', 'user_annotation', 'cuda_runtime', 'cuda_driver')
        and marked.event_id is null
        and ($rank is null or cpu_event.rank = $rank)
        and ($step is null or (cpu_event.rank, cpu_event.step) in (select (rank, step) from viewed_step))
),

-- One row per event on the CPU and per module call.
slice as (
    select
        rank,
        step,
        phase,
        track_id,
        start_ns,
        end_ns,
        kind,
        name,
        short_name,
        event_id,
        module_id,
        pass,
        short_name as type,
        1000 as layer
    from cpu_slice
    union all
    select
        rank,
        step,
        phase,
        track_id,
        start_ns,
        end_ns,
        'module',
        name,
        -- In a container of numbered modules, add the class: a number alone is not informative.
        case when regexp_full_match(name, '\d+') then '[' || name || ']' || coalesce(' ' || type, '') else name end,
        event_id,
        module_id,
        pass,
        type,
        depth
    from module_slice
    where ($rank is null or rank = $rank) and (rank, step) in (select (rank, step) from viewed_step)
)

select
    slice.rank,
    slice.step,
    slice.phase,
    loop_phase.home_id,
    slice.track_id,
    slice.start_ns,
    slice.end_ns,
    slice.kind,
    slice.name,
    slice.short_name,
    slice.type,
    slice.event_id,
    slice.module_id,
    slice.pass,
    slice.layer
from slice
asof left join loop_phase
    on
        slice.rank = loop_phase.rank
        and slice.step = loop_phase.step
        and slice.phase = loop_phase.phase
        and slice.start_ns >= loop_phase.start_ns
where
    not coalesce(
        slice.kind = 'annotation'
        and slice.track_id = loop_phase.track_id
        and (
            slice.end_ns > loop_phase.end_ns
            or (
                slice.event_id = loop_phase.event_id
                and 100.0 * (slice.end_ns - slice.start_ns)
                >= $dominant_pct * (loop_phase.end_ns - loop_phase.start_ns)
            )
        ),
        false
    )
