-- Kernels that serve a second module, which has no op of its own: the part of their time that counts to it.
--
-- GPU work that serves a second module: one kernel for a convolution and the activation after it, say.
--
-- If a module was not found, and the module before it was, kernels of that one serve both where their names, or that
-- of their op, tell the type of the missing one. How a kernel's time divides cannot be seen, so all its modules get
-- equal parts; the remainder stays with the module that launched it.
--
-- :reads fused_candidate, forward_item, nesting, launch, event
-- :column event_id BIGINT   the kernel; its `label` names the module that launched it, which keeps the rest of its time
-- :column module_id BIGINT  the other module
-- :column gpu_ns BIGINT     its part: the modules of a kernel share its duration equally
with guest as (
    -- Kernels, each with a further module that it serves.
    select
        launch.event_id,
        fused_candidate.module_id,
        event.dur_ns
    from fused_candidate
    inner join forward_item on fused_candidate.event_id = forward_item.event_id
    inner join nesting
        on
            forward_item.track_id = nesting.track_id
            and nesting.start_ns >= forward_item.start_ns
            and nesting.start_ns < forward_item.end_ns
    inner join launch on nesting.event_id = launch.runtime_id
    inner join event on launch.event_id = event.event_id
    where
        event.category = 'kernel'
        and contains(lower(event.name || ' ' || forward_item.name), fused_candidate.word)
)

select
    event_id,
    module_id,
    dur_ns // (1 + count(*) over (partition by event_id)) as gpu_ns
from guest
order by event_id, module_id
