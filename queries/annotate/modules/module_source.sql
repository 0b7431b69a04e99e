-- Source location of a module. One row per module with a location from a capture or from python stacks.
--
-- A capture stores the first line of user code that calls the module. Stacks contain functions: the module's own
-- `forward`, or, for a `forward` by torch, the innermost function around the module's first call. Only functions of the
-- user or of a library count, such as the code of a model. A stored line of PyTorch says nothing about the program: the
-- line of the closest enclosing module with other code counts instead.
--
-- :reads code_frame, model_op, module_span, nesting
-- :only_with model_op
-- :column module_id BIGINT  the module
-- :column source VARCHAR    file and line: `model.py:31`
-- :column function VARCHAR  function starting at the line; NULL for a line stored by a capture
-- :column evidence VARCHAR  capture: the calling line; enclosing: this line of an enclosing module; forward: the
--                           module's own `forward`; caller: the function around the first call

-- one row per module of a capture with its line, and whether the line is PyTorch's
with recursive stored_line as (
    select
        module_id,
        parent_id,
        source,
        code_origin(regexp_replace(source, ':\d+$', '')) = 'torch' as is_torch
    from model_op
    where source is not null
),

-- one row per module with a line of PyTorch and each module around it, up to the first with other code
around_line as (
    select
        module_id,
        parent_id as around_id
    from stored_line
    where is_torch
    union all
    select
        around_line.module_id,
        stored_line.parent_id
    from around_line
    inner join stored_line on around_line.around_id = stored_line.module_id
    where stored_line.is_torch
),

enclosing_line as (
    select
        around_line.module_id,
        stored_line.source
    from around_line
    inner join stored_line on around_line.around_id = stored_line.module_id
    where not stored_line.is_torch
),

-- one row per forward call of a module with a frame
call as (
    select
        module_span.module_id,
        module_span.call,
        module_span.track_id,
        nesting.start_ns,
        nesting.end_ns,
        nesting.depth
    from module_span
    inner join nesting on module_span.event_id = nesting.event_id
    where module_span.pass = 'forward'
),

-- one row per module: the innermost function around the first call
call_site as (
    select
        call.module_id,
        arg_max({'source': code_frame.source, 'function': code_frame.function}, code_frame.depth) as place
    from call
    inner join code_frame
        on
            call.track_id = code_frame.track_id
            and code_frame.start_ns <= call.start_ns
            and code_frame.end_ns >= call.end_ns
            and code_frame.depth < call.depth
    where call.call = 0
    group by call.module_id
),

-- one row per `forward` frame, with the innermost module around the frame
forward_frame as (
    select
        code_frame.event_id,
        any_value({'source': code_frame.source, 'function': code_frame.function}) as place,
        any_value(code_frame.start_ns) as start_ns,
        arg_max(call.module_id, call.depth) as module_id
    from call
    inner join code_frame
        on
            call.track_id = code_frame.track_id
            and code_frame.start_ns >= call.start_ns
            and code_frame.end_ns <= call.end_ns
            and code_frame.depth > call.depth
    where code_frame.function = 'forward'
    group by code_frame.event_id
),

own_place as (
    select
        module_id,
        arg_min(place, (start_ns, event_id)) as place
    from forward_frame
    group by module_id
)

select
    model_op.module_id,
    coalesce(enclosing_line.source, model_op.source, own_place.place.source, call_site.place.source) as source,
    case when model_op.source is null then coalesce(own_place.place.function, call_site.place.function) end as function,
    case
        when enclosing_line.source is not null then 'enclosing'
        when model_op.source is not null then 'capture'
        when own_place.place is not null then 'forward'
        else 'caller'
    end as evidence
from model_op
left join own_place on model_op.module_id = own_place.module_id
left join enclosing_line on model_op.module_id = enclosing_line.module_id
left join call_site on model_op.module_id = call_site.module_id
where coalesce(model_op.source, own_place.place.source, call_site.place.source) is not null
order by model_op.module_id
