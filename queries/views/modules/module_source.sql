-- Source location of a module. One row per module with a location from a capture or from python stacks.
--
-- A capture stores the first line of user code that calls the module. Stacks contain functions: the module's own
-- `forward`, or, for a `forward` by torch, the innermost function around the module's first call. Only functions of the
-- user or of a library count, such as the code of a model.
--
-- :reads code_frame, model_op, module_span, nesting
-- :column rank RANK
-- :column module_id BIGINT  the module
-- :column source VARCHAR    file and line: `model.py:31`
-- :column function VARCHAR  function starting at the line; NULL for a line stored by a capture
-- :column evidence VARCHAR  capture: the calling line; forward: the module's own `forward`; caller: the function around
--                           the first call

-- one row per forward call of a module with a frame
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

-- one row per module: the innermost function around the first call
call_site as (
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

-- one row per `forward` frame, with the innermost module around the frame
forward_frame as (
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

own_place as (
    select
        rank,
        module_id,
        arg_min(place, (start_ns, event_id)) as place
    from forward_frame
    group by rank, module_id
)

select
    model_op.rank,
    model_op.module_id,
    coalesce(model_op.source, own_place.place.source, call_site.place.source) as source,
    case when model_op.source is null then coalesce(own_place.place.function, call_site.place.function) end as function,
    case
        when model_op.source is not null then 'capture'
        when own_place.place is not null then 'forward'
        else 'caller'
    end as evidence
from model_op
left join own_place on model_op.rank = own_place.rank and model_op.module_id = own_place.module_id
left join call_site on model_op.rank = call_site.rank and model_op.module_id = call_site.module_id
where coalesce(model_op.source, own_place.place.source, call_site.place.source) is not null
