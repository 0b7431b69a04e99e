-- Copies of all weights in the gaps: `load_state_dict`, a deep copy, a target network.
--
-- Copies of one name, outside of other ops, are of the weights if a stretch has more than two of them, and at least as
-- many as a turn of the step accumulates gradients. A batch has fewer tensors.
--
-- :reads phase_timeline, turn_gradient, main_track, nesting, cpu_span, name_class
-- :column step_start_ns BIGINT  start of the step
-- :column stretch HUGEINT       the stretch, as in `phase_timeline`
-- :column before_phase PHASE    phase before the stretch; NULL if absent
-- :column had_batch BOOLEAN     `load_data` is shown earlier in the step
-- :column start_ns BIGINT       start of the copy
-- :column end_ns BIGINT         end of the copy, or of the gap if earlier
with step_gradient as (
    select
        step_start_ns,
        max(gradients) as gradients
    from turn_gradient
    group by step_start_ns
),

copy_in_gap as (
    select
        phase_timeline.step_start_ns,
        phase_timeline.stretch,
        phase_timeline.before_phase,
        phase_timeline.had_batch,
        nesting.start_ns,
        least(nesting.end_ns, phase_timeline.end_ns) as end_ns,
        count(*) over (
            partition by phase_timeline.step_start_ns, phase_timeline.stretch, cpu_span.class_id
        ) as same_name_count
    from cpu_span
    inner join name_class on cpu_span.class_id = name_class.class_id
    inner join nesting on cpu_span.event_id = nesting.event_id
    left join nesting as around on nesting.parent_id = around.event_id
    asof inner join phase_timeline on nesting.start_ns >= phase_timeline.start_ns
    where
        name_class.sign = 'copy'
        and around.op_id is null
        and nesting.track_id in (select track_id from main_track)
        and phase_timeline.label is null
)

select
    copy_in_gap.step_start_ns,
    copy_in_gap.stretch,
    copy_in_gap.before_phase,
    copy_in_gap.had_batch,
    copy_in_gap.start_ns,
    copy_in_gap.end_ns
from copy_in_gap
inner join step_gradient on copy_in_gap.step_start_ns = step_gradient.step_start_ns
where copy_in_gap.same_name_count >= greatest(3, step_gradient.gradients)
