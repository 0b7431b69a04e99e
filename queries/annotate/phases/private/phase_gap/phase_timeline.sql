-- Phases shown on the main thread in each step, and the gaps between them, each with the phases around it.
--
-- Consecutive pieces of one phase are one row, as is a whole run of backward.
--
-- Consecutive gaps between the same two phases form a stretch: `zero_grad`, `other`, `clipping` and a gradient scaler's
-- work do not end a stretch. Consecutive stretches form a turn. Every other phase except `backward` ends a turn.
--
-- :reads phase_piece
-- :column step_start_ns BIGINT       start of the step
-- :column start_ns BIGINT            start
-- :column end_ns BIGINT              end
-- :column is_step BOOLEAN            the step is marked; false if the whole trace is one step
-- :column label PHASE                the phase; NULL for a gap
-- :column previous_phase PHASE       the phase right before the row, of any kind; NULL at the start of the step
-- :column previous_evidence VARCHAR  source of `previous_phase`; NULL if absent
-- :column next_phase PHASE           the phase right after the row, of any kind; NULL at the end of the step
-- :column before_phase PHASE         the last earlier phase in the step that ends a stretch; NULL if absent
-- :column before_evidence VARCHAR    source of `before_phase`; NULL if absent
-- :column after_phase PHASE          the next later phase in the step that ends a stretch; NULL if absent
-- :column after_evidence VARCHAR     source of `after_phase`; NULL if absent
-- :column stretch HUGEINT            number of the stretch in the step, from 0
-- :column turn HUGEINT               number of the turn in the step, from 0
-- :column had_forward BOOLEAN        a forward pass is shown earlier in the step
-- :column had_batch BOOLEAN          `load_data` is shown earlier in the step
with phase_change as (
    select
        *,
        coalesce(
            (label, evidence, is_part) is distinct from lag((label, evidence, is_part)) over in_step, true
        ) as is_new
    from phase_piece
    where not is_inner
    window in_step as (partition by step_start_ns order by start_ns)
),

numbered_piece as (
    select
        *,
        sum(is_new::integer) over (partition by step_start_ns order by start_ns rows unbounded preceding) as number
    from phase_change
),

phase_or_gap as (
    select
        step_start_ns,
        min(start_ns) as start_ns,
        max(end_ns) as end_ns,
        any_value(is_step) as is_step,
        any_value(label) as label,
        any_value(evidence) as evidence,
        -- phases that end a stretch
        any_value(
            case
                when label not in ('zero_grad', 'other', 'clipping') and not is_part
                    then {'label': label, 'evidence': evidence}
            end
        ) as mark
    from numbered_piece
    group by step_start_ns, number
)

select
    step_start_ns,
    start_ns,
    end_ns,
    is_step,
    label,
    lag(label) over in_step as previous_phase,
    lag(evidence) over in_step as previous_evidence,
    lead(label) over in_step as next_phase,
    last_value(mark.label ignore nulls) over so_far as before_phase,
    last_value(mark.evidence ignore nulls) over so_far as before_evidence,
    first_value(mark.label ignore nulls) over to_come as after_phase,
    first_value(mark.evidence ignore nulls) over to_come as after_evidence,
    coalesce(sum((mark is not null)::integer) over so_far, 0) as stretch,
    coalesce(sum((mark is not null and mark.label != 'backward')::integer) over so_far, 0) as turn,
    coalesce(sum((mark.label = 'forward')::integer) over so_far, 0) > 0 as had_forward,
    coalesce(sum((mark.label = 'load_data')::integer) over so_far, 0) > 0 as had_batch
from phase_or_gap
window
    in_step as (partition by step_start_ns order by start_ns),
    so_far as (partition by step_start_ns order by start_ns rows between unbounded preceding and 1 preceding),
    to_come as (partition by step_start_ns order by start_ns rows between 1 following and unbounded following)
