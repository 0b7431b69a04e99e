-- Python between the ops of the model and the optimizer, which the GPU, or the next op, waits for.
--
-- Condition: time in which a thread of the training loop is inside of python or an annotation, but in no op and no
-- call of the runtime (`python` in `host_activity`), in forward, loss, zero_grad or the optimizer, but not in code
-- that torch.compile made; in backward, the engine of autograd calls ops without python. Bound: it takes no time.
-- Source: PyTorch, "Introduction to torch.compile" and CUDA semantics, "CUDA graphs": both run a step without the
-- python of its modules.
--
-- :reads host_activity, compiled_span, event, nesting, name_info
-- :what stretches of python between ops, most of it in {name}
-- :do Let torch.compile run the model without its python; move logging, checks and loops over parameters out of the
--     step.
with piece as (
    select
        host_activity.track_id,
        host_activity.number,
        host_activity.start_ns,
        host_activity.end_ns
    from host_activity
    asof left join compiled_span
        on
            host_activity.rank = compiled_span.rank
            and host_activity.track_id = compiled_span.track_id
            and host_activity.start_ns >= compiled_span.start_ns
    where
        host_activity.rank = $rank
        and host_activity.step = $step
        and host_activity.kind = 'python'
        and host_activity.phase in ('forward', 'loss', 'zero_grad', 'optimizer')
        and host_activity.end_ns is not null
        and not coalesce(compiled_span.end_ns > host_activity.start_ns, false)
),

-- The innermost event that is open where a piece begins: the last one that began by then, or one around it.
around as (
    select
        piece.track_id,
        piece.number,
        arg_max({'name': name_info.short_name, 'event_id': event.event_id}, nesting.depth) as innermost
    from piece
    inner join nesting
        on
            piece.track_id = nesting.track_id
            and piece.start_ns >= nesting.start_ns
            and piece.start_ns < nesting.end_ns
    inner join event on nesting.rank = event.rank and nesting.event_id = event.event_id
    inner join name_info
        on (event.rank, event.category, event.name) = (name_info.rank, name_info.category, name_info.name)
    where nesting.rank = $rank
    group by piece.track_id, piece.number
)

select
    around.innermost.event_id,
    'host' as effect,
    piece.track_id,
    piece.start_ns,
    piece.end_ns,
    piece.end_ns - piece.start_ns as saved_ns,
    around.innermost.name
from piece
inner join around on piece.track_id = around.track_id and piece.number = around.number
order by around.innermost.event_id, piece.start_ns
