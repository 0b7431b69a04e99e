-- Phases as spans of each thread: what the trace shows, and on the main thread what its neighbours tell of the gaps.
--
-- A gap inside a step is
--   load_data  before a forward pass: fetching, copying to the device, and waiting for either,
--   forward    before the loss or backward when no forward was shown: from the first op that backward comes back to,
--   loss       between forward and backward, or around a shown loss, up to the last op that backward comes back to;
--              where a placed model ended the forward, its output may still be made a probability: that is forward,
--   backward   right before backward when the loss is already done, and between its nodes,
--   optimizer  between backward and the optimizer, from the op on that takes a norm or unscales: clipping gradients,
--   other      everything else: logging, metrics, waiting at the step's end.
-- `zero_grad` may stand anywhere and tells nothing of its neighbours. Without step marks, nothing is known of the time
-- before the first forward and between two of them.
--
-- :reads phase_evidence, main_track, step, node, nesting, cpu_span, name_class
with shown as (
    select
        track_id,
        start_ns,
        end_ns,
        found.label as phase,
        found.evidence,
        found.event_id
    from phase_evidence
    where found is not null
),

main_piece as (
    select
        phase_evidence.start_ns,
        phase_evidence.end_ns,
        phase_evidence.found,
        step.start_ns as step_start_ns,
        step.evidence != 'whole_trace' as is_step
    from phase_evidence
    asof inner join step on phase_evidence.start_ns >= step.start_ns
    where phase_evidence.track_id in (select track_id from main_track) and phase_evidence.start_ns < step.end_ns
),

step_end as (
    select
        step.start_ns as step_start_ns,
        step.end_ns as step_end_ns,
        coalesce(min(main_piece.start_ns), step.end_ns) as first_ns,
        coalesce(max(main_piece.end_ns), step.start_ns) as last_ns,
        any_value(step.evidence) != 'whole_trace' as is_step
    from step
    left join main_piece on step.start_ns = main_piece.step_start_ns
    group by step.start_ns, step.end_ns
),

timeline as (
    select
        start_ns,
        end_ns,
        found,
        step_start_ns,
        is_step
    from main_piece
    union all
    select
        last_ns,
        step_end_ns,
        null,
        step_start_ns,
        is_step
    from step_end
    where step_end_ns > last_ns
),

context as (
    select
        *,
        lag(found.label) over in_step as previous_phase,
        lag(found.evidence) over in_step as previous_evidence,
        lead(found.label) over in_step as next_phase,
        last_value(case when found.label not in ('zero_grad', 'other') then found.label end ignore nulls) over (
            partition by step_start_ns order by start_ns rows between unbounded preceding and 1 preceding
        ) as before_phase,
        first_value(case when found.label not in ('zero_grad', 'other') then found.label end ignore nulls) over (
            partition by step_start_ns order by start_ns rows between 1 following and unbounded following
        ) as after_phase
    from timeline
    window in_step as (partition by step_start_ns order by start_ns)
),

gap as (
    select
        *,
        coalesce(before_phase not in ('forward', 'loss'), true)
        and coalesce(after_phase in ('loss', 'backward'), false) as hides_forward
    from context
    where found is null
),

differentiable as (
    select
        nesting.start_ns,
        nesting.end_ns
    from node
    inner join nesting on node.forward_id = nesting.event_id
    where nesting.track_id in (select track_id from main_track)
),

-- As-of joins, as joins by ranges alone compare each gap with each op.
first_op as (
    select
        gap.start_ns,
        min(differentiable.start_ns) as first_ns
    from differentiable
    asof inner join gap on differentiable.start_ns >= gap.start_ns
    where differentiable.start_ns < gap.end_ns and gap.hides_forward
    group by gap.start_ns
),

-- A loss may be weighed and averaged after the op that is known to be one.
last_op as (
    select
        gap.start_ns,
        any_value(gap.end_ns) as end_ns,
        max(least(differentiable.end_ns, gap.end_ns)) as last_ns
    from differentiable
    asof inner join gap on differentiable.start_ns >= gap.start_ns
    where
        differentiable.start_ns < gap.end_ns
        and not gap.hides_forward
        and gap.previous_phase = 'loss'
        and gap.after_phase = 'backward'
        and gap.next_phase != 'zero_grad'
    group by gap.start_ns
),

-- Losses that take logits make them probabilities themselves: what does so before a loss is the model's last layer.
activation as (
    select
        cpu_span.start_ns,
        cpu_span.end_ns,
        cpu_span.track_id
    from cpu_span
    inner join name_class on cpu_span.class_id = name_class.class_id
    where name_class.name in ('aten::softmax', 'aten::log_softmax', 'aten::sigmoid')
),

output as (
    select
        gap.start_ns,
        any_value(gap.end_ns) as end_ns,
        max(least(activation.end_ns, gap.end_ns)) as last_ns
    from activation
    asof inner join gap on activation.start_ns >= gap.start_ns
    where
        activation.track_id in (select track_id from main_track)
        and activation.start_ns < gap.end_ns
        and gap.previous_phase = 'forward'
        and gap.previous_evidence = 'alignment'
        and gap.next_phase = 'loss'
    group by gap.start_ns
),

clip as (
    select
        cpu_span.start_ns,
        cpu_span.track_id
    from cpu_span
    inner join name_class on cpu_span.class_id = name_class.class_id
    where
        name_class.name in (
            'aten::linalg_vector_norm', 'aten::_foreach_norm', 'aten::norm',
            'aten::_amp_foreach_non_finite_check_and_unscale_'
        )
),

clipped as (
    select
        gap.start_ns,
        any_value(gap.end_ns) as end_ns,
        min(clip.start_ns) as first_ns
    from clip
    asof inner join gap on clip.start_ns >= gap.start_ns
    where
        clip.track_id in (select track_id from main_track)
        and clip.start_ns < gap.end_ns
        and gap.before_phase = 'backward'
        and gap.after_phase = 'optimizer'
    group by gap.start_ns
),

filled as (
    select
        start_ns,
        end_ns,
        case
            when after_phase = 'forward' and before_phase = 'forward' and is_step then 'forward'
            when after_phase = 'forward' and coalesce(before_phase, 'forward') = 'forward' and not is_step then 'other'
            when after_phase = 'forward' then 'load_data'
            when after_phase = 'loss' then 'loss'
            when after_phase = 'backward' and previous_phase = 'forward' then 'loss'
            when after_phase = 'backward' and next_phase = 'zero_grad' then 'loss'
            when after_phase = 'backward' then 'backward'
            else 'other'
        end as phase
    from gap
    where
        not hides_forward
        and start_ns not in (
            select start_ns from clipped union all select start_ns from last_op union all select start_ns from output
        )
    union all
    select
        start_ns,
        last_ns,
        'loss'
    from last_op
    union all
    select
        last_ns,
        end_ns,
        'backward'
    from last_op
    union all
    select
        start_ns,
        last_ns,
        'forward'
    from output
    union all
    select
        last_ns,
        end_ns,
        'loss'
    from output
    union all
    select
        start_ns,
        first_ns,
        'other'
    from clipped
    union all
    select
        first_ns,
        end_ns,
        'optimizer'
    from clipped
    union all
    select
        gap.start_ns,
        first_op.first_ns,
        'load_data'
    from gap
    inner join first_op on gap.start_ns = first_op.start_ns
    union all
    -- between two nodes on the main thread, where no forward runs
    select
        gap.start_ns,
        gap.end_ns,
        'backward'
    from gap
    where
        gap.hides_forward
        and gap.previous_phase = 'backward'
        and gap.next_phase = 'backward'
        and gap.start_ns not in (select start_ns from first_op)
    union all
    select
        coalesce(first_op.first_ns, gap.start_ns),
        gap.end_ns,
        'forward'
    from gap
    left join first_op on gap.start_ns = first_op.start_ns
    where
        gap.hides_forward
        and (
            first_op.start_ns is not null
            or not coalesce(gap.previous_phase = 'backward' and gap.next_phase = 'backward', false)
        )
),

piece as (
    select * from shown
    union all
    select
        main_track.track_id,
        filled.start_ns,
        filled.end_ns,
        filled.phase,
        'neighbours',
        null
    from filled
    cross join main_track
    where filled.end_ns > filled.start_ns
),

broken as (
    select
        *,
        coalesce(lag(phase) over in_order != phase, true)
        or coalesce(lag(end_ns) over in_order != start_ns, true)
        or start_ns in (select start_ns from step) as is_new
    from piece
    window in_order as (partition by track_id order by start_ns)
),

numbered as (
    select
        *,
        sum(is_new::integer) over (partition by track_id order by start_ns rows unbounded preceding) as number
    from broken
)

select
    track_id,
    min(start_ns) as start_ns,
    max(end_ns) as end_ns,
    track_id in (select track_id from main_track) as is_main,
    any_value(phase) as phase,
    arg_min(event_id, start_ns) as event_id,
    arg_min(evidence, start_ns) as evidence
from numbered
group by track_id, number
order by track_id, start_ns
