-- Hooks in python that autograd runs, from pauses in autograd's calls of nodes.
--
-- Hooks of tensors run in the engine's call, outside of the node. Hooks after the accumulation of a gradient run in the
-- node. A pause of at least `hook_ns()` before, between or after the inner events is a hook. Calls without inner events
-- do not show hooks.
--
-- :reads nesting, cpu_span, name_class
-- :column track_id BIGINT  the thread
-- :column start_ns BIGINT  start of the pause
-- :column end_ns BIGINT    end of the pause
with hooked_call as (
    select
        nesting.event_id,
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns
    from nesting
    inner join cpu_span on nesting.event_id = cpu_span.event_id
    inner join name_class on cpu_span.class_id = name_class.class_id
    where
        nesting.self_ns >= hook_ns()
        and nesting.self_ns < nesting.end_ns - nesting.start_ns
        and (is_engine_mark(name_class.name) or is_gradient_accumulation(name_class.name))
),

-- Pauses before each inner event and at the end.
pause as (
    select
        hooked_call.track_id,
        coalesce(
            lag(nesting.end_ns) over (partition by hooked_call.event_id order by nesting.start_ns),
            hooked_call.start_ns
        ) as paused_ns,
        nesting.start_ns as resumed_ns
    from hooked_call
    inner join nesting on hooked_call.event_id = nesting.parent_id
    union all
    select
        hooked_call.track_id,
        max(nesting.end_ns) as paused_ns,
        hooked_call.end_ns as resumed_ns
    from hooked_call
    inner join nesting on hooked_call.event_id = nesting.parent_id
    group by hooked_call.event_id, hooked_call.track_id, hooked_call.end_ns
)

select
    track_id,
    paused_ns as start_ns,
    resumed_ns as end_ns
from pause
where resumed_ns - paused_ns >= hook_ns()
