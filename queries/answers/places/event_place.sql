-- Where an event belongs to: the module, and the line of the user's code around it or around the call that launched it.
--
-- In a module, the innermost function of the user or of a library counts, as a library may have the code of the model.
-- Elsewhere it is the innermost function of the user.
--
-- :param rank BIGINT                   the process rank
-- :param event BIGINT                  the event, by its `event_id`
-- :reads launch, nesting, label, model_op, code_frame, module_source
-- :column rank BIGINT                  process rank
-- :column event_id BIGINT              the event
-- :column module_path VARCHAR          path of the module; NULL where none is known
-- :column source VARCHAR               file and line where the innermost function of the user around it begins, or that
--     the capture stored for the module; NULL where the trace tells none
-- :column function VARCHAR             the name of that function; NULL likewise
with cpu as (
    select coalesce(
        (
            select coalesce(launch.runtime_id, launch.op_id) from launch
            where launch.rank = $rank and launch.event_id = $event
        ),
        $event
    ) as event_id
),

around as (
    select nesting.*
    from nesting
    inner join cpu on nesting.event_id = cpu.event_id
    where nesting.rank = $rank
),

own as (
    select module_id from label
    where rank = $rank and event_id = $event
),

frame as (
    select
        arg_max(code_frame.source, code_frame.depth) as source,
        arg_max(code_frame.function, code_frame.depth) as function
    from around
    inner join code_frame
        on
            around.rank = code_frame.rank
            and around.track_id = code_frame.track_id
            and code_frame.start_ns <= around.start_ns
            and code_frame.end_ns >= around.end_ns
            and code_frame.depth <= around.depth
            and (code_frame.is_user or (select module_id from own) is not null)
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
