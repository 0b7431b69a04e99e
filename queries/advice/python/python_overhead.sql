-- Python between the ops of the model and the optimizer, which the GPU, or the next op, waits for.
--
-- Condition: time in which a thread of the training loop is inside of python or an annotation, but in no op and no
-- call of the runtime (`python` in `host_activity`), in forward, loss, zero_grad, clipping or the optimizer, but not
-- in code that torch.compile made; in backward, the engine of autograd calls ops without python. Bound: it takes no
-- time. Source: PyTorch, "Introduction to torch.compile" and CUDA semantics, "CUDA graphs": both run a step without
-- the python of its modules.
--
-- :reads host_activity, compiled_span, nesting
-- :what stretches of python between ops
-- :do Let torch.compile run the model without its python; move logging, checks and loops over parameters out of the
--     step.
with piece as (
    select
        host_activity.track_id,
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
        and host_activity.phase in ('forward', 'loss', 'zero_grad', 'clipping', 'optimizer')
        and host_activity.end_ns is not null
        and not coalesce(compiled_span.end_ns > host_activity.start_ns, false)
)

-- Each piece is known by the event that began last before it.
select
    begun.event_id,
    'host' as effect,
    piece.track_id,
    piece.start_ns,
    piece.end_ns,
    piece.end_ns - piece.start_ns as saved_ns,
    'python' as name
from piece
asof inner join last_begun('nesting', $rank) as begun
    on piece.track_id = begun.track_id and piece.start_ns >= begun.start_ns
order by begun.event_id, piece.start_ns
