-- The gaps between the phases that the main thread shows, inside steps, and what stands in them.
--
-- Consecutive gaps between the same two phases form a stretch, in which `zero_grad`, `other`, `clipping` and a gradient
-- scaler's work may stand. Times are found for the whole stretch and repeated on each of its gaps.
--
-- :reads phase_piece, phase_timeline, phase_stretch, batch_span, main_track, nesting
-- :column start_ns BIGINT            start of the gap
-- :column end_ns BIGINT              end of the gap
-- :column is_step BOOLEAN            something marks the step around it; false where the whole trace is one step
-- :column before_phase PHASE         the last phase shown before it in its step that ends a stretch; NULL without one
-- :column before_evidence VARCHAR    what shows `before_phase`, as in `phase_span`; NULL without one
-- :column previous_phase PHASE       the phase shown right before it, of whatever kind; NULL where the gap begins the
--                                    step
-- :column previous_evidence VARCHAR  what shows `previous_phase`; NULL without one
-- :column next_phase PHASE           the phase shown right after it, of whatever kind; NULL where the gap ends the step
-- :column after_phase PHASE          the next phase shown after it in its step that ends a stretch; NULL without one
-- :column after_evidence VARCHAR     what shows `after_phase`; NULL without one
-- :column zero_ns BIGINT             of its stretch: start of the last `zero_grad`; NULL if none follows a gap of the
--                                    stretch
-- :column had_model BOOLEAN          a forward pass is shown before it in its step, or the first layer of the step's
--                                    gaps stands before it
-- :column zeroed_ns BIGINT           of its stretch: start of the first op after the last `zero_grad` that a gap
--                                    follows; NULL without one
-- :column optimizer_ns BIGINT        of its stretch: start of the first update that counts as an optimizer's, or of the
--                                    ops on lists of tensors right before it; NULL without one
-- :column updated_ns BIGINT          of its stretch: end of the last update that counts as an optimizer's; NULL without
--                                    one
-- :column first_ns BIGINT            of its stretch: start of the first op that backward comes back to, or of an op
--                                    around it; NULL without one
-- :column known_ns BIGINT            of its stretch: end of the last op that backward comes back to; NULL without one
-- :column layer_ns BIGINT            of its stretch: start of the first layer after `updated_ns`; NULL without one
-- :column modelled_ns BIGINT         of its stretch: end of the last layer, activation, softmax or sigmoid; NULL
--                                    without one
-- :column output_ns BIGINT           of its stretch: end of the last softmax or sigmoid; NULL without one
-- :column read_ns BIGINT             of its stretch: end of the last op that reads a value back after `known_ns`; NULL
--                                    without one
-- :column seed_ns BIGINT             of its stretch: start of the last sign if that makes a tensor, as backward does
--                                    with the gradient of the loss; NULL without one
-- :column fetching_ns BIGINT         of the head of its stretch (the signs after `updated_ns` and before `first_ns` and
--                                    `layer_ns`): start of the first op that puts a batch together or draws at random;
--                                    NULL without one
-- :column fetched_ns BIGINT          of the head: end of the last op that puts a batch together; if nothing else brings
--                                    the step a batch, of the last op that draws one before any tensor is made; NULL
--                                    without one, or after `load_data`
-- :column logged_ns BIGINT           of the head: end of the last op before `fetching_ns` that reads a value back,
--                                    or is one of more than two updates of one name; NULL without one, or after
--                                    `load_data`
-- :column reading_ns BIGINT          of the head: start of the last op that reads a value back before `logged_ns`; NULL
--                                    without one
-- :column made_ns BIGINT             of the head: start of the first op that draws or makes a tensor after `fetched_ns`
--                                    and `logged_ns`; NULL without one
-- :column is_between_nodes BOOLEAN   the gap lies between two of autograd's nodes on the main thread, with nothing in
--                                    it; such a gap has only its times and `is_step`, all else is NULL
with gap as materialized (
    select * from phase_timeline
    where label is null
),

-- Gaps after `zero_grad`.
first_op as (
    select
        gap.start_ns,
        op.start_ns as op_ns
    from gap
    asof inner join (
        select start_ns
        from nesting
        where op_id = event_id and track_id in (select track_id from main_track)
    ) as op
        on gap.start_ns <= op.start_ns
    where gap.previous_phase = 'zero_grad'
)

select
    gap.start_ns,
    gap.end_ns,
    gap.is_step,
    gap.before_phase,
    gap.before_evidence,
    gap.previous_phase,
    gap.previous_evidence,
    gap.next_phase,
    gap.after_phase,
    gap.after_evidence,
    max(case when gap.next_phase = 'zero_grad' then gap.end_ns end) over (
        partition by gap.step_start_ns, gap.stretch
    ) as zero_ns,
    gap.had_forward
    or coalesce(min(phase_stretch.layer_ns) over (partition by gap.step_start_ns) < gap.start_ns, false) as had_model,
    max(case when gap.previous_phase = 'zero_grad' then first_op.op_ns end) over (
        partition by gap.step_start_ns, gap.stretch
    ) as zeroed_ns,
    phase_stretch.* exclude (step_start_ns, stretch),
    batch_span.* exclude (step_start_ns, stretch),
    false as is_between_nodes
from gap
left join phase_stretch on gap.step_start_ns = phase_stretch.step_start_ns and gap.stretch = phase_stretch.stretch
left join batch_span on gap.step_start_ns = batch_span.step_start_ns and gap.stretch = batch_span.stretch
left join first_op on gap.start_ns = first_op.start_ns
union all by name
select
    start_ns,
    end_ns,
    is_step,
    true as is_between_nodes
from phase_piece
where is_inner and is_between
