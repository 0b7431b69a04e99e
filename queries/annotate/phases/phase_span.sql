-- Phases as spans of each CPU thread: phases shown in the trace, and on the main thread also inferred for the gaps.
-- Spans of one thread never overlap.
--
-- A gap inside a step is
--   load_data  before a forward pass: fetching, copying to the device, and waiting for either. If an optimizer calls
--              its closure again, on the same batch, this time is forward,
--   forward    before the loss or backward if no forward was shown: from the first op with a backward node, or the
--              first layer, to the last layer or activation. Also around the layers of any other gap in a marked step,
--              or between two losses: evaluation and inference,
--   loss       between forward and backward, or around a shown loss, up to the last op with a backward node. If an
--              aligned model ended the forward, its output may still be turned into a probability, which is forward,
--   backward   right before backward if the loss is complete, and between backward nodes,
--   optimizer  after backward, from the first update to the last, in a trace without optimizer marks,
--   other      everything else: logging, metrics, statistics of gradients, waiting at the step's end.
-- Clipping and a gradient scaler's work are not gaps, because ops show them (`gradient_part`). Without step marks, the
-- time before the first forward and between two forwards is unknown.
--
-- :reads phase_evidence, phase_gap, closure_call, main_track, step
-- :column track_id BIGINT   the thread
-- :column start_ns BIGINT   start
-- :column end_ns BIGINT     end
-- :column is_main BOOLEAN   the thread runs the training loop
-- :column phase PHASE       of the step
-- :column event_id BIGINT   the event showing the phase; NULL for an inferred phase
-- :column evidence VARCHAR  annotation, profiler, autograd, python, op_name or neighbours
with shown_phase as (
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

-- Calls of an optimizer's closure after the first call in the step.
closure_again as (
    select
        start_ns,
        end_ns as closure_end_ns
    from closure_call
    where is_again and track_id in (select track_id from main_track)
),

-- Gaps with the conditions for the table below.
gap as (
    select
        phase_gap.* replace (coalesce(phase_gap.logged_ns, 0) as logged_ns),
        coalesce(phase_gap.start_ns < closure_again.closure_end_ns, false) as is_again,
        if(is_again, 'forward', 'load_data') as batch_phase,
        coalesce(before_phase not in ('forward', 'loss'), true)
        and coalesce(after_phase in ('loss', 'backward'), false) as lacks_forward,
        before_phase in ('forward', 'loss') and coalesce(after_phase in ('loss', 'backward'), false) as may_be_loss,
        -- DDP's own annotation may cover only a part of the forward pass.
        layer_ns is not null and coalesce(before_phase != 'forward' or before_evidence = 'profiler', true) as has_model,
        coalesce(known_ns > modelled_ns, false) as has_loss,
        before_phase = 'backward' and updated_ns is not null
        and coalesce(after_phase != 'optimizer' or after_evidence = 'op_name', true)
        and not marked.has_marks as is_updated,
        -- Computations on a gradient are not a forward pass.
        coalesce(
            before_phase = 'backward' and after_phase = 'backward' and updated_ns is null and layer_ns is null
            and first_ns is not null and had_model, false
        ) as is_of_gradient,
        -- between two nodes on the main thread
        previous_phase = 'backward' and next_phase = 'backward' and not is_updated as is_between_backward,
        -- between two forward passes of a step, with ops outside the model
        coalesce(before_phase = 'forward' and after_phase = 'forward' and is_step, false) as is_between_forwards,
        -- An unmarked optimizer may multiply matrices.
        has_model and is_step and coalesce(before_phase != 'backward', true)
        and coalesce(after_phase != 'optimizer', true) as is_evaluation,
        -- The output of an aligned model may still be turned into a probability.
        previous_phase = 'forward' and previous_evidence = 'alignment' and next_phase = 'loss' as follows_placed_model,
        coalesce(before_phase in ('load_data', 'optimizer'), true) as follows_update,
        coalesce(before_phase = 'forward', true) as may_follow_forward,
        least(first_ns, layer_ns) as model_ns,
        if(before_phase = 'loss', layer_ns, 0) as second_model_ns,
        case
            when
                coalesce(fetched_ns <= zeroed_ns, before_phase = 'load_data')
                then least(made_ns, zeroed_ns)
            else made_ns
        end as begin_ns,
        -- Work without ops on a value read back lasts until backward creates the gradient of the loss.
        case
            when read_ns > coalesce(greatest(known_ns, zero_ns), 0)
                then if(seed_ns >= greatest(read_ns, phase_gap.start_ns), least(seed_ns, end_ns), end_ns)
            else coalesce(zero_ns, 0)
        end as measured_ns
    from phase_gap
    -- Whether the trace marks any optimizer; if so, no unmarked optimizers are inferred.
    cross join (
        select
            coalesce(
                bool_or(phase = 'optimizer' and evidence in ('annotation', 'profiler', 'python')), false
            ) as has_marks
        from shown_phase
    ) as marked
    asof left join closure_again on phase_gap.start_ns >= closure_again.start_ns
    where not is_between_nodes
),

-- Gaps with their parts in order, as in the table "The parts of a gap" of the docs. A part starts at the latest end of
-- the earlier parts, and is empty if this is later than its own end. A NULL end is the end of the gap.
divided_gap as (
    select
        start_ns,
        end_ns,
        -- noqa: disable=LT02
        case
            when is_updated then [
                {'phase': 'other', 'end_ns': optimizer_ns},
                {'phase': 'optimizer', 'end_ns': if(after_phase = 'optimizer', null, updated_ns)}
            ]
            when is_between_forwards then [{'phase': 'forward', 'end_ns': least(reading_ns, fetching_ns)}]
            else []
        end as first_parts,
        case
            -- No forward pass was shown before a loss or backward.
            when is_of_gradient then [
                {'phase': 'loss', 'end_ns': known_ns},
                {'phase': 'other', 'end_ns': measured_ns},
                {'phase': 'backward', 'end_ns': null}
            ]
            when lacks_forward and model_ns is null and is_between_backward then [
                {'phase': 'other', 'end_ns': logged_ns},
                {'phase': 'backward', 'end_ns': null}
            ]
            when lacks_forward and has_model and has_loss and after_phase = 'backward' then [
                {'phase': 'other', 'end_ns': logged_ns},
                {'phase': batch_phase, 'end_ns': least(model_ns, begin_ns)},
                {'phase': 'forward', 'end_ns': modelled_ns},
                {'phase': 'loss', 'end_ns': known_ns},
                {'phase': 'other', 'end_ns': measured_ns},
                {'phase': 'backward', 'end_ns': null}
            ]
            when lacks_forward and has_model and has_loss then [
                {'phase': 'other', 'end_ns': logged_ns},
                {'phase': batch_phase, 'end_ns': least(model_ns, begin_ns)},
                {'phase': 'forward', 'end_ns': modelled_ns},
                {'phase': 'loss', 'end_ns': null}
            ]
            when lacks_forward and model_ns is not null then [
                {'phase': 'other', 'end_ns': logged_ns},
                {'phase': batch_phase, 'end_ns': least(model_ns, begin_ns)},
                {'phase': 'forward', 'end_ns': null}
            ]
            when lacks_forward then [
                {'phase': 'other', 'end_ns': logged_ns},
                {'phase': 'forward', 'end_ns': null}
            ]
            -- A forward pass was shown before a loss or backward.
            when may_be_loss and has_model and has_loss and after_phase = 'backward' then [
                {'phase': if(is_step, 'loss', 'other'), 'end_ns': second_model_ns},
                {'phase': 'forward', 'end_ns': modelled_ns},
                {'phase': 'loss', 'end_ns': known_ns},
                {'phase': 'other', 'end_ns': measured_ns},
                {'phase': 'backward', 'end_ns': null}
            ]
            when may_be_loss and has_model and has_loss then [
                {'phase': if(is_step, 'loss', 'other'), 'end_ns': second_model_ns},
                {'phase': 'forward', 'end_ns': modelled_ns},
                {'phase': 'loss', 'end_ns': null}
            ]
            when may_be_loss and has_model then [
                {'phase': if(is_step and known_ns is not null, 'loss', 'other'), 'end_ns': second_model_ns},
                {'phase': 'forward', 'end_ns': null}
            ]
            when may_be_loss and follows_placed_model then [
                {'phase': 'forward', 'end_ns': coalesce(output_ns, 0)},
                {'phase': 'loss', 'end_ns': null}
            ]
            when may_be_loss and after_phase = 'backward' and known_ns is not null then [
                {'phase': 'loss', 'end_ns': known_ns},
                {'phase': 'other', 'end_ns': measured_ns},
                {'phase': 'backward', 'end_ns': null}
            ]
            when may_be_loss and after_phase = 'backward' and previous_phase != 'forward' then [
                {'phase': 'other', 'end_ns': measured_ns},
                {'phase': 'backward', 'end_ns': null}
            ]
            when may_be_loss then [{'phase': 'loss', 'end_ns': null}]
            -- before a forward pass
            when is_between_forwards then [
                {'phase': 'other', 'end_ns': logged_ns},
                {'phase': batch_phase, 'end_ns': coalesce(begin_ns, fetched_ns, nullif(logged_ns, 0))},
                {'phase': 'forward', 'end_ns': null}
            ]
            when after_phase = 'forward' and not is_step and not is_again and may_follow_forward then [
                {'phase': 'other', 'end_ns': logged_ns},
                {'phase': 'other', 'end_ns': begin_ns},
                {'phase': 'forward', 'end_ns': null}
            ]
            when after_phase = 'forward' then [
                {'phase': 'other', 'end_ns': logged_ns},
                {'phase': batch_phase, 'end_ns': begin_ns},
                {'phase': 'forward', 'end_ns': null}
            ]
            -- before anything else
            when is_evaluation then [
                {'phase': if(follows_update, 'load_data', 'other'), 'end_ns': least(layer_ns, begin_ns)},
                {'phase': 'forward', 'end_ns': modelled_ns},
                {'phase': 'other', 'end_ns': null}
            ]
            else [{'phase': 'other', 'end_ns': null}]
        end as parts
        -- noqa: enable=LT02
    from gap
),

gap_part as (
    select
        start_ns,
        end_ns,
        unnest(first_parts || parts) as part,
        generate_subscripts(first_parts || parts, 1) as number
    from divided_gap
),

-- Parts with the latest end up to each part.
ended_part as (
    select
        start_ns,
        end_ns,
        part.phase,
        number,
        max(coalesce(part.end_ns, end_ns)) over (
            partition by start_ns order by number rows unbounded preceding
        ) as part_end_ns
    from gap_part
),

inferred_phase as (
    select
        greatest(start_ns, lag(part_end_ns) over in_gap) as start_ns,
        least(end_ns, part_end_ns) as end_ns,
        phase
    from ended_part
    window in_gap as (partition by start_ns order by number)
    union all
    select
        start_ns,
        end_ns,
        'backward'
    from phase_gap
    where is_between_nodes
),

piece as (
    select * from shown_phase
    where end_ns > start_ns
    union all
    select
        main_track.track_id,
        inferred_phase.start_ns,
        inferred_phase.end_ns,
        inferred_phase.phase,
        'neighbours',
        null
    from inferred_phase
    cross join main_track
    where inferred_phase.end_ns > inferred_phase.start_ns
),

compared_piece as (
    select
        *,
        coalesce(lag(phase) over in_order != phase, true)
        or coalesce(lag(end_ns) over in_order != start_ns, true)
        or start_ns in (select start_ns from step) as is_new
    from piece
    window in_order as (partition by track_id order by start_ns)
),

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
