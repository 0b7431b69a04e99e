-- The rows of `phase_sign`, with the stretch of `phase_timeline`.
--
-- :reads phase_sign, phase_timeline
-- :column step_start_ns BIGINT  start of the step
-- :column stretch HUGEINT       the stretch, as in `phase_timeline`
-- :column turn HUGEINT          the turn, as in `phase_timeline`
-- :column before_phase PHASE    phase before the stretch; NULL if absent
-- :column had_batch BOOLEAN     `load_data` is shown earlier in the step
-- :column start_ns BIGINT       start of the sign
-- :column end_ns BIGINT         end of the sign, or of the gap if earlier
-- :column kind VARCHAR          kind, as in `phase_sign`
-- :column class_id BIGINT       the name, as in `name_class`; NULL for `differentiable`
-- :column parent_id BIGINT      the enclosing event; NULL if absent, and for all kinds except `differentiable`
select
    phase_timeline.step_start_ns,
    phase_timeline.stretch,
    phase_timeline.turn,
    phase_timeline.before_phase,
    phase_timeline.had_batch,
    phase_sign.start_ns,
    least(phase_sign.end_ns, phase_timeline.end_ns) as end_ns,
    phase_sign.kind,
    phase_sign.class_id,
    phase_sign.parent_id
from phase_sign
asof inner join phase_timeline on phase_sign.start_ns >= phase_timeline.start_ns
where phase_timeline.label is null
