-- Stretches of a CPU thread that belong to one phase. Spans of one thread never overlap.
--
-- Phases as spans of each thread: phases that the trace shows, and on the main thread phases of the gaps between them,
-- which follow from the phases around a gap and the ops in it.
--
-- A gap inside a step is
--   load_data  before a forward pass: fetching, copying to the device, and waiting for either; but where an optimizer
--              calls its closure again, on the same batch, that is forward,
--   forward    before the loss or backward when no forward was shown: from the first op that backward comes back to, or
--              the first layer, up to the last layer or activation; and around the layers of any other gap in a marked
--              step, or between two losses: evaluation and inference,
--   loss       between forward and backward, or around a shown loss, up to the last op that backward comes back to;
--              where a placed model ended the forward, its output may still be made a probability: that is forward,
--   backward   right before backward when the loss is already done, and between its nodes,
--   optimizer  after backward, from the first update to the last; between backward and the optimizer, from the op on
--              that takes a norm, unscales or updates: clipping gradients,
--   other      everything else: logging, metrics, waiting at the step's end.
-- Without step marks, nothing is known of the time before the first forward and between two of them.
--
-- :reads phase_evidence, phase_gap, closure_call, main_track, step
-- :column track_id BIGINT   the thread
-- :column start_ns BIGINT   start
-- :column end_ns BIGINT     end
-- :column is_main BOOLEAN   the thread is the one that runs the training loop
-- :column phase PHASE       phase of the step
-- :column event_id BIGINT   the event that shows the phase; NULL where it is inferred from its neighbours
-- :column evidence VARCHAR  annotation, profiler, autograd, python, op_name or neighbours
with shown_piece as (
    -- Pieces in which the trace shows a phase.
    select
        evidence.track_id,
        evidence.start_ns,
        evidence.end_ns,
        evidence.found.label as phase,
        evidence.found.evidence,
        evidence.found.event_id
    from phase_evidence as evidence
    where evidence.found is not null
),

-- Calls of an optimizer's closure after the first one.
later_call as (
    select
        start_ns,
        end_ns as again_end_ns
    from closure_call
    where is_again and track_id in (select track_id from main_track)
),

-- Gaps of the main thread, and what kind of gap each one is.
gap as (
    select
        phase_gap.*,
        coalesce(phase_gap.start_ns < later_call.again_end_ns, false) as is_again,
        coalesce(before_phase not in ('forward', 'loss'), true)
        and coalesce(after_phase in ('loss', 'backward'), false) as hides_forward,
        before_phase in ('forward', 'loss') and coalesce(after_phase in ('loss', 'backward'), false) as is_loss,
        -- DDP's own annotation may hold only a part of the forward pass
        layer_ns is not null and coalesce(before_phase != 'forward' or before_evidence = 'profiler', true) as has_model,
        before_phase = 'backward' and updated_ns is not null as is_updated,
        -- ops on a gradient (a penalty) are no forward pass
        coalesce(
            before_phase = 'backward' and after_phase = 'backward' and updated_ns is null and layer_ns is null
            and first_ns is not null and had_model, false
        ) as is_of_gradient,
        -- between two forward passes of a step
        coalesce(before_phase = 'forward' and after_phase = 'forward' and is_step, false) as is_between_forwards,
        case
            when
                coalesce(fetched_ns <= zeroed_ns, before_phase = 'load_data')
                then least(made_ns, zeroed_ns)
            else made_ns
        end as begin_ns
    from phase_gap
    asof left join later_call on phase_gap.start_ns >= later_call.start_ns
    where not is_between_nodes
),

-- Times at which the parts of each gap end. NULL is the end of the gap; a part that ends before the gap is empty.
gap_border as (
    select
        start_ns,
        end_ns,
        case
            when is_updated or before_phase = 'backward' and after_phase = 'optimizer' then optimizer_ns
            when is_between_forwards then least(reading_ns, fetching_ns)
            else 0
        end as before_optimizer_ns,
        case
            when before_phase = 'backward' and after_phase = 'optimizer' then null
            when is_updated then updated_ns
            when before_phase = 'optimizer' then coalesce(rescaled_ns, 0)
            else 0
        end as optimizer_ns,
        case when hides_forward and not is_of_gradient or after_phase = 'forward' then logged_ns end as logged_ns,
        case when is_between_forwards then 'forward' else 'other' end as first_phase,
        case
            when hides_forward and least(first_ns, layer_ns) is not null
                then least(first_ns, layer_ns, case when not is_of_gradient then begin_ns end)
            -- between two nodes on the main thread
            when hides_forward and previous_phase = 'backward' and next_phase = 'backward' and not is_updated then null
            when hides_forward then 0
            when is_loss and before_phase = 'loss' and has_model then layer_ns
            when is_loss then 0
            -- an optimizer that nothing names may multiply matrices
            when
                has_model and is_step and coalesce(before_phase != 'backward', true)
                and coalesce(after_phase not in ('forward', 'optimizer'), true) then least(layer_ns, begin_ns)
            when is_between_forwards then coalesce(begin_ns, fetched_ns, logged_ns)
            when after_phase = 'forward' then begin_ns
        end as before_forward_ns,
        case
            when after_phase = 'forward' then null
            when has_model and coalesce(known_ns > modelled_ns or not hides_forward and not is_loss, false)
                then modelled_ns
            when has_model then null
            when is_loss and previous_phase = 'forward' and previous_evidence = 'alignment' and next_phase = 'loss'
                then coalesce(output_ns, 0)
            when is_loss or is_of_gradient then 0
        end as forward_ns,
        case
            when coalesce(after_phase != 'backward', true) then null
            when has_model and coalesce(known_ns <= modelled_ns, true) then null
            when hides_forward and not has_model and not is_of_gradient then null
            when known_ns is not null then known_ns
            when is_loss and previous_phase != 'forward' then 0
        end as loss_ns,
        case
            when hides_forward and before_forward_ns is null then 'backward'
            when is_of_gradient then 'loss'
            when is_again and (hides_forward or after_phase = 'forward') then 'forward'
            when hides_forward then 'load_data'
            when is_loss and is_step and known_ns is not null then 'loss'
            when is_loss then 'other'
            when after_phase = 'forward' and coalesce(before_phase, 'forward') = 'forward' and not is_step then 'other'
            when after_phase = 'forward' then 'load_data'
            when
                before_forward_ns is not null
                and coalesce(before_phase in ('load_data', 'optimizer'), true) then 'load_data'
            else 'other'
        end as before_forward_phase,
        case when hides_forward or is_loss then 'loss' else 'other' end as after_forward_phase,
        greatest(read_ns, zero_ns) as read_ns
    from gap
),

-- Parts of gaps, with the phase of each.
gap_part as (
    select
        greatest(start_ns, part.start_ns) as start_ns,
        least(end_ns, part.end_ns) as end_ns,
        part.phase
    from (
        select
            start_ns,
            end_ns,
            coalesce(before_optimizer_ns, end_ns) as first_ns,
            greatest(first_ns, coalesce(optimizer_ns, end_ns)) as second_ns,
            greatest(second_ns, logged_ns) as logged_until_ns,
            greatest(logged_until_ns, coalesce(before_forward_ns, end_ns)) as third_ns,
            greatest(third_ns, coalesce(forward_ns, end_ns)) as fourth_ns,
            greatest(fourth_ns, coalesce(loss_ns, end_ns)) as fifth_ns,
            greatest(fifth_ns, read_ns) as sixth_ns,
            unnest([
                {'start_ns': start_ns, 'end_ns': first_ns, 'phase': first_phase},
                {'start_ns': first_ns, 'end_ns': second_ns, 'phase': 'optimizer'},
                {'start_ns': second_ns, 'end_ns': logged_until_ns, 'phase': 'other'},
                {'start_ns': logged_until_ns, 'end_ns': third_ns, 'phase': before_forward_phase},
                {'start_ns': third_ns, 'end_ns': fourth_ns, 'phase': 'forward'},
                {'start_ns': fourth_ns, 'end_ns': fifth_ns, 'phase': after_forward_phase},
                {'start_ns': fifth_ns, 'end_ns': sixth_ns, 'phase': 'other'},
                {'start_ns': sixth_ns, 'end_ns': end_ns, 'phase': 'backward'}
            ]) as part
        from gap_border
    )
    union all
    select
        start_ns,
        end_ns,
        'backward'
    from phase_gap
    where is_between_nodes
),

-- All pieces of time whose phase is shown or inferred.
piece as (
    select * from shown_piece
    where end_ns > start_ns
    union all
    select
        main_track.track_id,
        gap_part.start_ns,
        gap_part.end_ns,
        gap_part.phase,
        'neighbours',
        null
    from gap_part
    cross join main_track
    where gap_part.end_ns > gap_part.start_ns
),

-- Pieces, and whether each starts a new span: after another phase, after unknown time, or with a step.
compared_piece as (
    select
        *,
        coalesce(lag(phase) over in_order != phase, true)
        or coalesce(lag(end_ns) over in_order != start_ns, true)
        or start_ns in (select start_ns from step) as is_new
    from piece
    window in_order as (partition by track_id order by start_ns)
),

-- Pieces with the number of their span on the thread.
numbered_piece as (
    select
        *,
        sum(is_new::integer) over (partition by track_id order by start_ns rows unbounded preceding) as number
    from compared_piece
)

select
    track_id,
    min(start_ns) as start_ns,
    max(end_ns) as end_ns,
    track_id in (select track_id from main_track) as is_main,
    any_value(phase) as phase,
    arg_min(event_id, start_ns) as event_id,
    arg_min(evidence, start_ns) as evidence
from numbered_piece
group by track_id, number
order by track_id, start_ns
