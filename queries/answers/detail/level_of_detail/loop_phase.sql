-- One row per phase on the training loop's thread in a viewed step.
--
-- :reads phase_span, viewed_step
-- :column home_id BIGINT   number of the phase, from 1 in order of rank and time
-- :column rank RANK
-- :column step STEP        at the start of the phase
-- :column phase PHASE
-- :column track_id BIGINT  the thread
-- :column start_ns BIGINT  start of the phase
-- :column end_ns BIGINT    end of the phase, cut at the end of the step
-- :column event_id BIGINT  event of the phase; NULL without an event
select
    row_number() over (order by phase_span.rank, phase_span.start_ns) as home_id,
    phase_span.rank,
    viewed_step.step,
    phase_span.phase,
    phase_span.track_id,
    phase_span.start_ns,
    least(phase_span.end_ns, viewed_step.end_ns) as end_ns,
    phase_span.event_id
from phase_span
asof inner join viewed_step
    on phase_span.rank = viewed_step.rank and phase_span.start_ns >= viewed_step.start_ns
where phase_span.is_main and phase_span.start_ns < viewed_step.end_ns
