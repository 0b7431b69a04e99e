-- The pieces of `main_piece`. `is_inner` marks the pieces inside a run of backward.
--
-- If autograd runs on the main thread, most gaps are between two autograd nodes, and no event in them hints at a phase
-- (`phase_sign`). These gaps and the nodes around them form a run of backward. In `phase_timeline`, the first and last
-- piece represent the run; all other pieces are inner pieces.
--
-- :reads main_piece, phase_sign
-- :column step_start_ns BIGINT  start of the step
-- :column start_ns BIGINT       start of the piece
-- :column end_ns BIGINT         end of the piece
-- :column is_step BOOLEAN       the step is marked; false if the whole trace is one step
-- :column label PHASE           the phase; NULL for a gap
-- :column evidence VARCHAR      source of the phase, as in `phase_span`; NULL for a gap
-- :column is_part BOOLEAN       clipping or a gradient scaler's work, as in `gradient_part`; NULL for a gap
-- :column is_between BOOLEAN    a gap between two nodes without signs; NULL or false for other pieces
-- :column is_inner BOOLEAN      the previous and next piece belong to the same run of backward
with run_part as (
    select
        *,
        coalesce(label = 'backward', false) as is_backward,
        label is null and previous = 'backward' and next = 'backward'
        and start_ns not in (select piece_ns from phase_sign) as is_between
    from main_piece
)

select
    step_start_ns,
    start_ns,
    end_ns,
    is_step,
    label,
    evidence,
    is_part,
    is_between,
    coalesce(lag(is_backward or is_between) over in_step, false)
    and (is_backward or coalesce(is_between, false))
    and coalesce(lead(is_backward or is_between) over in_step, false) as is_inner
from run_part
window in_step as (partition by step_start_ns order by start_ns)
