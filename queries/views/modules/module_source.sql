-- Where the code of a module is. One row per module of which the capture or python stacks tell.
--
-- A capture stores the line of the user's code that calls the module first. Stacks tell functions: the module's own
-- `forward`, or, where torch wrote that, the innermost function around the module's first call. Functions are the
-- user's or a library's, such as the code of a model.
--
-- :reads code_frame, model_op, module_span, nesting
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
        arg_max({'source': code_frame.source, 'function': code_frame.function}, code_frame.depth) as place
    from call
    inner join code_frame
        on
            call.rank = code_frame.rank
            and call.track_id = code_frame.track_id
            and code_frame.start_ns <= call.start_ns
            and code_frame.end_ns >= call.end_ns
            and code_frame.depth < call.depth
    where call.call = 0
    group by call.rank, call.module_id
),

forward_of as (
    select
        call.rank,
        code_frame.event_id,
        any_value({'source': code_frame.source, 'function': code_frame.function}) as place,
        any_value(code_frame.start_ns) as start_ns,
        arg_max(call.module_id, call.depth) as module_id
    from call
    inner join code_frame
        on
            call.rank = code_frame.rank
            and call.track_id = code_frame.track_id
            and code_frame.start_ns >= call.start_ns
            and code_frame.end_ns <= call.end_ns
            and code_frame.depth > call.depth
    where code_frame.function = 'forward'
    group by call.rank, code_frame.event_id
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
