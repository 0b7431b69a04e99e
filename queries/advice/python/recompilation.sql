-- torch.compile compiles again in the middle of training.
--
-- Condition: torch.compile's compilation marks (`(dynamo_timed)`, or frames of torch/_dynamo/convert_frame.py) in a
-- step after the first. Bound: compilation takes no time. Source: PyTorch, "Dealing with recompilations" (torch.compile
-- troubleshooting).
--
-- :reads cpu_event, step
-- :finding times that torch.compile compiles again
-- :remedy Find out why with TORCH_LOGS=recompiles; keep shapes fixed, or mark what changes (torch._dynamo.mark_dynamic,
--     dynamic=True).
with compilation as (
    -- One row per outermost compilation mark.
    select
        cpu_event.event_id,
        cpu_event.name,
        cpu_event.track_id,
        cpu_event.start_ns,
        cpu_event.end_ns
    from cpu_event
    where
        cpu_event.rank = $rank
        and cpu_event.step = $step
        and cpu_event.step > (select min(step.step) from step where step.rank = $rank)
        and (is_compile_mark(cpu_event.name) or is_compile_frame(cpu_event.name))
    qualify is_outermost(cpu_event.start_ns, cpu_event.end_ns, cpu_event.track_id, cpu_event.depth)
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
