-- Pieces of each step on the main thread: shown phases, and gaps without a shown phase.
--
-- :reads phase_evidence, main_track, step
-- :column step_start_ns BIGINT  start of the step
-- :column start_ns BIGINT       start of the piece
-- :column end_ns BIGINT         end of the piece
-- :column is_step BOOLEAN       the step is marked; false if the whole trace is one step
-- :column label PHASE           the phase; NULL for a gap
-- :column evidence VARCHAR      source of the phase, as in `phase_span`; NULL for a gap
-- :column is_part BOOLEAN       clipping or a gradient scaler's work, as in `gradient_part`; NULL for a gap
-- :column previous PHASE        phase of the previous piece in the step; NULL for a gap, and without a piece
-- :column next PHASE            phase of the next piece in the step; NULL for a gap, and without a piece
with piece_with_events as (
    select
        phase_evidence.start_ns,
        phase_evidence.end_ns,
        phase_evidence.found.label,
        phase_evidence.found.evidence,
        phase_evidence.found.is_part,
        step.start_ns as step_start_ns,
        step.evidence != 'whole_trace' as is_step
    from phase_evidence
    asof inner join step on phase_evidence.start_ns >= step.start_ns
    where phase_evidence.track_id in (select track_id from main_track) and phase_evidence.start_ns < step.end_ns
),

-- Steps with the end of the last piece. The time from there to the end of the step is also a gap.
step_end as (
    select
        step.start_ns as step_start_ns,
        step.end_ns as step_end_ns,
        coalesce(max(piece_with_events.end_ns), step.start_ns) as last_ns,
        any_value(step.evidence) != 'whole_trace' as is_step
    from step
    left join piece_with_events on step.start_ns = piece_with_events.step_start_ns
    group by step.start_ns, step.end_ns
),

piece as (
    select * from piece_with_events
    union all by name
    select
        last_ns as start_ns,
        step_end_ns as end_ns,
        step_start_ns,
        is_step
    from step_end
    where step_end_ns > last_ns
)

select
    step_start_ns,
    start_ns,
    end_ns,
    is_step,
    label,
    evidence,
    is_part,
    lag(label) over in_step as previous,
    lead(label) over in_step as next
from piece
window in_step as (partition by step_start_ns order by start_ns)
