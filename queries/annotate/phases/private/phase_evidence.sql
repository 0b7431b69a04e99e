-- Phases shown in the trace on each thread.
--
-- In order of precedence, phases come from strong markers, operations on gradients, optimizer markers, weak markers,
-- stretches of autograd and asides.
--
-- The borders of all layers are merged into one list. At each border, the latest label of each layer counts; 0 means
-- that the layer's span has ended. Steps add borders of their own, and no piece crosses a step's start. Time inside an
-- optimizer marker belongs to the optimizer, except in closure calls.
--
-- :reads marker_segment, gradient_part, backward_burst, closure_call, step, main_track
-- :column track_id BIGINT   the thread
-- :column start_ns BIGINT   start of the piece
-- :column end_ns BIGINT     end of the piece
-- :column found STRUCT("label" VARCHAR, evidence VARCHAR, event_id BIGINT, is_part BOOLEAN)  the shown phase, its
--     evidence (as in `marker`), the event showing it, and whether the evidence is a row of `gradient_part`; NULL if no
--     phase is shown
with layer as (
    -- Spans of each layer: families of markers, operations on gradients, closure calls, and stretches of autograd.
    select
        case when family = 'strong' and label = 'optimizer' then label else family end as family,
        track_id,
        start_ns,
        end_ns,
        label,
        evidence,
        event_id
    from marker_segment
    where family in ('strong', 'weak', 'aside')
    union all
    select
        'part',
        track_id,
        start_ns,
        end_ns,
        label,
        'op_name',
        event_id
    from gradient_part
    union all
    select
        'closure',
        track_id,
        start_ns,
        end_ns,
        null,
        null,
        null
    from closure_call
    union all
    select
        'burst',
        track_id,
        start_ns,
        end_ns,
        'backward',
        'autograd',
        event_id
    from backward_burst
),

-- The same spans, numbered from 1.
layer_span as materialized (
    select
        *,
        row_number() over () as span_id
    from layer
),

-- Starts and ends (span 0) of a layer's spans, and starts of steps.
border as (
    select
        track_id,
        start_ns as at_ns,
        1 as opens,
        family,
        span_id
    from layer_span
    union all
    select
        track_id,
        end_ns,
        0,
        family,
        0
    from layer_span
    union all
    select
        main_track.track_id,
        step.start_ns,
        2,
        null,
        null
    from step
    cross join main_track
),

-- The same borders, in order. At equal times, ends come before starts.
numbered_border as (
    select
        *,
        row_number() over (order by track_id, at_ns, opens) as position
    from border
),

-- Time between two borders, with the current span of each layer. `arg_max` replaces `last_value`, which would search
-- back from each border, to the first border if a layer has no spans.
piece as (
    select
        track_id,
        at_ns as start_ns,
        lead(at_ns) over in_order as end_ns,
        arg_max(case when family = 'strong' then span_id end, position) over so_far as strong,
        arg_max(case when family = 'part' then span_id end, position) over so_far as part,
        arg_max(case when family = 'optimizer' then span_id end, position) over so_far as optimizer,
        arg_max(case when family = 'closure' then span_id end, position) over so_far as closure,
        arg_max(case when family = 'weak' then span_id end, position) over so_far as weak,
        arg_max(case when family = 'burst' then span_id end, position) over so_far as burst,
        arg_max(case when family = 'aside' then span_id end, position) over so_far as aside
    from numbered_border
    window
        in_order as (partition by track_id order by position),
        so_far as (partition by track_id order by position rows between unbounded preceding and current row)
),

-- Pieces with the span of highest precedence; NULL if no layer has one.
shown_span as (
    select
        track_id,
        start_ns,
        end_ns,
        coalesce(
            nullif(strong, 0),
            nullif(part, 0),
            case when coalesce(closure, 0) = 0 then nullif(optimizer, 0) end,
            nullif(weak, 0),
            nullif(burst, 0),
            nullif(aside, 0)
        ) as span_id
    from piece
    where end_ns > start_ns
)

select
    shown_span.track_id,
    shown_span.start_ns,
    shown_span.end_ns,
    case
        when layer_span.span_id is not null
            then {
                'label': layer_span.label,
                'evidence': layer_span.evidence,
                'event_id': layer_span.event_id,
                'is_part': layer_span.family = 'part'
            }
    end as found
from shown_span
left join layer_span on shown_span.span_id = layer_span.span_id
