-- Where the code of a module is. One row per module of which the capture or python stacks tell.
--
-- A capture stores the line of the user's code that calls the module first. Stacks tell functions: the module's own
-- `forward`, or, where torch wrote that, the innermost function of the user around the module's first call.
--
-- :reads user_frame, model_op, module_span, nesting
-- :column rank BIGINT       process rank
-- :column module_id BIGINT  the module
-- :column source VARCHAR    file and line: `model.py:31`
-- :column function VARCHAR  the function that begins there; NULL for a line that a capture stored
-- :column evidence VARCHAR  capture: the line that calls it; forward: its own; caller: the function around its first
--                           call
with call as (
    select
        module_span.rank,
        module_span.module_id,
        module_span.call,
        module_span.track_id,
        nesting.start_ns,
        nesting.end_ns,
        nesting.depth
    from module_span
    inner join nesting on module_span.rank = nesting.rank and module_span.event_id = nesting.event_id
    where module_span.pass = 'forward'
),

called_from as (
    select
        call.rank,
        call.module_id,
        arg_max({'source': user_frame.source, 'function': user_frame.function}, user_frame.depth) as place
    from call
    inner join user_frame
        on
            call.rank = user_frame.rank
            and call.track_id = user_frame.track_id
            and user_frame.start_ns <= call.start_ns
            and user_frame.end_ns >= call.end_ns
            and user_frame.depth < call.depth
    where call.call = 0
    group by call.rank, call.module_id
),

forward_of as (
    select
        call.rank,
        user_frame.event_id,
        any_value({'source': user_frame.source, 'function': user_frame.function}) as place,
        any_value(user_frame.start_ns) as start_ns,
        arg_max(call.module_id, call.depth) as module_id
    from call
    inner join user_frame
        on
            call.rank = user_frame.rank
            and call.track_id = user_frame.track_id
            and user_frame.start_ns >= call.start_ns
            and user_frame.end_ns <= call.end_ns
            and user_frame.depth > call.depth
    where user_frame.function = 'forward'
    group by call.rank, user_frame.event_id
),

own as (
    select
        rank,
        module_id,
        arg_min(place, (start_ns, event_id)) as place
    from forward_of
    group by rank, module_id
)

select
    model_op.rank,
    model_op.module_id,
    coalesce(model_op.source, own.place.source, called_from.place.source) as source,
    case when model_op.source is null then coalesce(own.place.function, called_from.place.function) end as function,
    case
        when model_op.source is not null then 'capture'
        when own.place is not null then 'forward'
        else 'caller'
    end as evidence
from model_op
left join own on model_op.rank = own.rank and model_op.module_id = own.module_id
left join called_from on model_op.rank = called_from.rank and model_op.module_id = called_from.module_id
where coalesce(model_op.source, own.place.source, called_from.place.source) is not null
