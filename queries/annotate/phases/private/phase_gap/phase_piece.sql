-- The rows of `main_piece`, and which of them lie inside a run of backward.
--
-- Where autograd runs on the main thread, most gaps lie between two of its nodes, with nothing in them. Such gaps and
-- the nodes around them are a run of backward. The first and the last piece of a run stand for it in `phase_timeline`,
-- and all others are inner ones.
--
-- :reads main_piece, phase_sign
-- :column step_start_ns BIGINT  start of the step
-- :column start_ns BIGINT       start of the piece
-- :column end_ns BIGINT         end of the piece
-- :column is_step BOOLEAN       something marks the step; false where the whole trace is one step
-- :column label PHASE           the phase; NULL for a gap
-- :column evidence VARCHAR      what shows the phase, as in `phase_span`; NULL for a gap
-- :column is_part BOOLEAN       clipping or a gradient scaler's work, as in `gradient_part`; NULL for a gap
-- :column is_between BOOLEAN    a gap between two nodes, with nothing in it; NULL or false for other pieces
-- :column is_inner BOOLEAN      the pieces before and after it are of the same run of backward
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
