-- Location of an event: its module, and the line of user code around the event or around its launching call.
--
-- Inside a module, the innermost function of the user counts. If the module's code is in a library, the innermost
-- function of the library counts. Elsewhere, only functions of the user count.
--
-- :param rank BIGINT                   the process rank
-- :param event BIGINT                  `event_id` of the event
-- :reads launch, nesting, label, model_op, code_frame, module_source, module_span
-- :column rank RANK
-- :column event_id BIGINT              the event
-- :column module_path VARCHAR          path of the module; NULL if unknown
-- :column source VARCHAR               file and first line of the innermost function of the user around the event, or
--                                      the line stored by the capture for the module; NULL if unknown
-- :column function VARCHAR             name of this function; NULL if unknown
with cpu_side as (
    select coalesce(
        (
            select coalesce(launch.runtime_id, launch.op_id) from launch
            where launch.rank = $rank and launch.event_id = $event
        ),
        $event
    ) as event_id
),

nested_event as (
    select nesting.*
    from nesting
    inner join cpu_side on nesting.event_id = cpu_side.event_id
    where nesting.rank = $rank
),

event_label as (
    select module_id from label
    where rank = $rank and event_id = $event
),

-- one row: the outermost call of a module around the event
model_call as (
    select min(module_span.start_ns) as start_ns
    from nested_event
    inner join module_span
        on
            nested_event.rank = module_span.rank
            and nested_event.track_id = module_span.track_id
            and module_span.start_ns <= nested_event.start_ns
            and module_span.end_ns >= nested_event.end_ns
),

-- one row: the innermost matching function around the event; the user's functions in the model come first
frame as (
    select
        arg_max(code_frame.source, {'is_own': is_own, 'depth': code_frame.depth}) as source,
        arg_max(code_frame.function, {'is_own': is_own, 'depth': code_frame.depth}) as function
    from nested_event
    cross join model_call
    inner join code_frame
        on
            nested_event.rank = code_frame.rank
            and nested_event.track_id = code_frame.track_id
            and code_frame.start_ns <= nested_event.start_ns
            and code_frame.end_ns >= nested_event.end_ns
            and code_frame.depth <= nested_event.depth
            and (code_frame.is_user or (select module_id from event_label) is not null)
    cross join lateral (
        select code_frame.is_user and coalesce(code_frame.start_ns >= model_call.start_ns, false) as is_own
    )
)

select
    label.rank,
    label.event_id,
    model_op.path as module_path,
    coalesce(frame.source, module_source.source) as source,
    case when frame.source is null then module_source.function else frame.function end as function
from label
cross join frame
left join model_op on label.rank = model_op.rank and label.module_id = model_op.module_id
left join module_source on label.rank = module_source.rank and label.module_id = module_source.module_id
where label.rank = $rank and label.event_id = $event
