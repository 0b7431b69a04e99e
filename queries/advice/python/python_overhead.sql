-- Python between the ops of the model and the optimizer, while the GPU or the next op waits.
--
-- Condition: time in which a training thread is inside python or an annotation, but outside of ops and runtime calls
-- (`python` in `host_activity`). Phases: forward, loss, zero_grad, clipping and the optimizer. Backward is excluded,
-- because the autograd engine calls ops without python. Code compiled by torch.compile is also excluded. Bound: python
-- takes no time. Source: PyTorch, "Introduction to torch.compile" and CUDA semantics, "CUDA graphs": both run a step
-- without the python of its modules.
--
-- :reads host_activity, compiled_span, cpu_event
-- :finding stretches of python between ops
-- :remedy Let torch.compile run the model without its python; move logging, checks and loops over parameters out of the
--     step.
with piece as (
    -- One row per stretch of python outside of compiled code.
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

-- Each piece is identified by the last event begun before it.
select
    begun.event_id,
    'host' as effect,
    piece.track_id,
    piece.start_ns,
    piece.end_ns,
    piece.end_ns - piece.start_ns as saved_ns,
    'python' as name
from piece
asof inner join last_begun('cpu_event', $rank) as begun
    on piece.track_id = begun.track_id and piece.start_ns >= begun.start_ns
order by begun.event_id, piece.start_ns
