-- Location of an event: its module, and the line of user code around the event or around its launching call.
--
-- Inside a module, the innermost function of the user counts. If the module's code is in a library, the innermost
-- function of the library counts. Elsewhere, only functions of the user count.
--
-- :param rank BIGINT                   the process rank
-- :param event BIGINT                  `event_id` of the event
-- :reads gpu_event, cpu_event, code_frame, module_source, module_span
-- :column rank RANK
-- :column event_id BIGINT              the event
-- :column module_path VARCHAR          path of the module; NULL if unknown
-- :column source VARCHAR               file and first line of the innermost function of the user around the event, or
--                                      the line stored by the capture for the module; NULL if unknown
-- :column function VARCHAR             name of this function; NULL if unknown
with cpu_side as (
    select coalesce(
        (
            select coalesce(gpu_event.runtime_id, gpu_event.op_id) from gpu_event
            where gpu_event.rank = $rank and gpu_event.event_id = $event
        ),
        $event
    ) as event_id
),

nested_event as (
    select cpu_event.*
    from cpu_event
    inner join cpu_side on cpu_event.event_id = cpu_side.event_id
    where cpu_event.rank = $rank
),

-- one row: the event with its module
event_label as (
    select
        rank,
        event_id,
        module_id,
        module_path
    from cpu_event
    where rank = $rank and event_id = $event
    union all
    select
        rank,
        event_id,
        module_id,
        module_path
    from gpu_event
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
    event_label.rank,
    event_label.event_id,
    event_label.module_path,
    coalesce(frame.source, module_source.source) as source,
    case when frame.source is null then module_source.function else frame.function end as function
from event_label
cross join frame
left join module_source
    on event_label.rank = module_source.rank and event_label.module_id = module_source.module_id
