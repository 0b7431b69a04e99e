-- Gaps between the phases shown on the main thread, inside steps, with the times of signs in each gap's stretch.
--
-- Consecutive gaps between the same two phases form a stretch, which may contain `zero_grad`, `other`, `clipping` and a
-- gradient scaler's work. A sign is an event that helps to find a gap's phase (`phase_sign`). Times are computed for
-- the whole stretch and repeated for each of its gaps.
--
-- :reads phase_piece, phase_timeline, phase_stretch, batch_span, main_track, nesting
-- :column start_ns BIGINT            start of the gap
-- :column end_ns BIGINT              end of the gap
-- :column is_step BOOLEAN            the surrounding step is marked; false if the whole trace is one step
-- :column before_phase PHASE         the last earlier phase in the step that ends a stretch; NULL if absent
-- :column before_evidence VARCHAR    source of `before_phase`, as in `phase_span`; NULL if absent
-- :column previous_phase PHASE       the phase shown right before the gap, of any kind; NULL if the gap begins the step
-- :column previous_evidence VARCHAR  source of `previous_phase`; NULL if absent
-- :column next_phase PHASE           the phase shown right after the gap, of any kind; NULL if the gap ends the step
-- :column after_phase PHASE          the next later phase in the step that ends a stretch; NULL if absent
-- :column after_evidence VARCHAR     source of `after_phase`; NULL if absent
-- :column zero_ns BIGINT             in the stretch: start of the last `zero_grad` after a gap; NULL if absent
-- :column had_model BOOLEAN          the step shows a forward pass before the gap, or the first layer in the step's
--                                    gaps is before the gap
-- :column zeroed_ns BIGINT           in the stretch: start of the first op after the last `zero_grad` before a gap;
--                                    NULL if absent
-- :column optimizer_ns BIGINT        in the stretch: start of an optimizer's first update, or of the ops on lists of
--                                    tensors right before it; NULL if absent
-- :column updated_ns BIGINT          in the stretch: end of an optimizer's last update; NULL if absent
-- :column first_ns BIGINT            in the stretch: start of the first op with a backward node, or of an enclosing op;
--                                    NULL if absent
-- :column known_ns BIGINT            in the stretch: end of the last op with a backward node; NULL if absent
-- :column layer_ns BIGINT            in the stretch: start of the first layer after `updated_ns`; NULL if absent
-- :column modelled_ns BIGINT         in the stretch: end of the last layer, activation, softmax or sigmoid; NULL if
--                                    absent
-- :column output_ns BIGINT           in the stretch: end of the last softmax or sigmoid; NULL if absent
-- :column read_ns BIGINT             in the stretch: end of the last op after `known_ns` that reads a value back; NULL
--                                    if absent
-- :column seed_ns BIGINT             in the stretch: start of the last sign if it creates a tensor, as backward does
--                                    for the gradient of the loss; NULL if absent
-- :column fetching_ns BIGINT         in the head of the stretch (the signs after `updated_ns` and before `first_ns` and
--                                    `layer_ns`): start of the first op that assembles a batch or draws random numbers;
--                                    NULL if absent
-- :column fetched_ns BIGINT          in the head: end of the last op that assembles a batch; if the step has no other
--                                    batch, end of the last op that draws a random batch before any tensor is created;
--                                    NULL if absent, or after `load_data`
-- :column logged_ns BIGINT           in the head: end of the last event before `fetching_ns` that reads a value back,
--                                    writes a file, copies weights, or is among more than two updates of one name; NULL
--                                    if absent, or after `load_data`
-- :column reading_ns BIGINT          in the head: start of the last op before `logged_ns` that reads a value back; NULL
--                                    if absent
-- :column made_ns BIGINT             in the head: start of the first op after `fetched_ns` and `logged_ns` that draws
--                                    random numbers or creates a tensor; NULL if absent
-- :column is_between_nodes BOOLEAN   the gap is between two autograd nodes on the main thread and has no signs; only
--                                    the times and `is_step` are set, other columns are NULL
with gap as materialized (
    select * from phase_timeline
    where label is null
),

-- Gaps after `zero_grad`, with the start of the next op.
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
