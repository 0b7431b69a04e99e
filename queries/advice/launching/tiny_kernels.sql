-- Kernels running for less time than the CPU needs for the launch.
--
-- Condition: computation kernels shorter than their launch call. Kernels of code compiled by torch.compile are
-- excluded, as are kernels of graphs, where one call launches many. Bound: the kernels and their calls take no time,
-- because another running kernel does the work as well. Source: NVIDIA Nsight Systems, expert system; NVIDIA, "Getting
-- started with CUDA graphs", for the cost of a launch.
--
-- :reads gpu_work, event
-- :only_with gpu_work where dur_ns < launch_dur_ns
-- :finding kernels shorter than the call that launches them
-- :remedy Have fewer, longer kernels: a larger batch, torch.compile, which fuses ops, and a fused optimizer.
with kernel as (
    -- One row per kernel shorter than its launch call, with the call.
    select
        gpu_work.*,
        call.track_id as call_track_id,
        call.start_ns as call_start_ns,
        call.end_ns as call_end_ns
    from gpu_work
    inner join event as call on gpu_work.rank = call.rank and gpu_work.runtime_id = call.event_id
    where
        gpu_work.rank = $rank
        and gpu_work.step = $step
        and gpu_work.class = 'computation'
        and gpu_work.kernel_count = 1
        and not gpu_work.is_compiled
        and gpu_work.dur_ns < gpu_work.launch_dur_ns
)

select
    event_id,
    'work' as effect,
    track_id,
    start_ns,
    end_ns,
    dur_ns as saved_ns,
    short_name as name
from kernel
union all
select
    runtime_id as event_id,
    'host' as effect,
    call_track_id as track_id,
    call_start_ns as start_ns,
    call_end_ns as end_ns,
    call_end_ns - call_start_ns as saved_ns,
    short_name as name
from kernel
order by event_id
