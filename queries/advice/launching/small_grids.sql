-- Kernels with fewer blocks than the GPU has multiprocessors, which leaves some multiprocessors idle.
--
-- Condition: computation kernels running alone, because work of other streams could use the idle multiprocessors.
-- Kernels of collectives are excluded: they have few blocks on purpose. Bound: the work spreads over all
-- multiprocessors. Source: NVIDIA Nsight Compute, rule "Launch configuration: small grid".
--
-- :reads gpu_event, kernel_shape, gpu_model
-- :only_with gpu_event
-- :only_with gpu_model
-- :finding kernels with fewer blocks than the GPU has multiprocessors
-- :remedy Give each kernel more work: a larger batch, several small layers as one (batched or grouped products), or
--     independent ones on several streams.
with kernel as (
    -- One row per kernel, with its blocks and the times of the work before and after on the device.
    select
        gpu_event.*,
        kernel_shape.blocks as block_count,
        gpu_model.sm_count,
        max(gpu_event.end_ns) over (
            partition by gpu_event.device order by gpu_event.start_ns, gpu_event.event_id
            rows between unbounded preceding and 1 preceding
        ) as busy_until_ns,
        lead(gpu_event.start_ns) over (partition by gpu_event.device order by gpu_event.start_ns, gpu_event.event_id)
            as next_ns
    from gpu_event
    left join kernel_shape on gpu_event.rank = kernel_shape.rank and gpu_event.event_id = kernel_shape.event_id
    left join gpu_model on gpu_event.rank = gpu_model.rank and gpu_event.device = gpu_model.device_id
    where gpu_event.rank = $rank and gpu_event.step = $step
)

select
    event_id,
    'work' as effect,
    track_id,
    start_ns,
    end_ns,
    floor(dur_ns * (1 - block_count / sm_count))::bigint as saved_ns,
    short_name as name
from kernel
where
    class = 'computation'
    and block_count < sm_count
    and coalesce(busy_until_ns <= start_ns, true)
    and coalesce(next_ns >= end_ns, true)
order by event_id
