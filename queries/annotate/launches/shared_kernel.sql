-- Kernels that also serve a second module without an op of its own, with the second module's part of the time.
--
-- An example is one kernel for a convolution and the following activation. If a module was not found but the module
-- before it was, kernels of the found module may serve both. The condition is that the name of the kernel or of its op
-- contains the missing module's type. The true division of a kernel's time is unknown: all its modules get equal parts,
-- and the remainder stays with the launching module.
--
-- :reads fused_candidate, forward_item, nesting, launch, event
-- :column event_id BIGINT   the kernel; its `label` names the launching module, and the remaining time stays with that
--                           module
-- :column module_id BIGINT  the second module
-- :column gpu_ns BIGINT     the module's part: the modules of a kernel share the duration equally
with guest as (
    -- Kernels, with a further module served by each.
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
