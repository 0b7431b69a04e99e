-- torch.compile compiles again in the middle of training.
--
-- Condition: torch.compile's compilation marks (`(dynamo_timed)`, or frames of torch/_dynamo/convert_frame.py) in a
-- step after the first. Bound: compilation takes no time. Source: PyTorch, "Dealing with recompilations" (torch.compile
-- troubleshooting).
--
-- :reads event, nesting, label, step
-- :finding times that torch.compile compiles again
-- :remedy Find out why with TORCH_LOGS=recompiles; keep shapes fixed, or mark what changes (torch._dynamo.mark_dynamic,
--     dynamic=True).
with compilation as (
    -- One row per outermost compilation mark.
    select
        event.event_id,
        event.name,
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns
    from event
    inner join nesting on event.rank = nesting.rank and event.event_id = nesting.event_id
    inner join label on event.rank = label.rank and event.event_id = label.event_id
    where
        event.rank = $rank
        and label.step = $step
        and label.step > (select min(step.step) from step where step.rank = $rank)
        and (is_compile_mark(event.name) or is_compile_frame(event.name))
    qualify is_outermost(nesting.start_ns, nesting.end_ns, nesting.track_id, nesting.depth)
)

select
    event_id,
    'host' as effect,
    track_id,
    start_ns,
    end_ns,
    end_ns - start_ns as saved_ns,
    name
from compilation
order by event_id
