-- Kernels running for less time than the CPU needs for the launch.
--
-- Condition: computation kernels shorter than their launch call. Kernels of code compiled by torch.compile are
-- excluded, as are kernels of graphs, where one call launches many. Bound: the kernels and their calls take no time,
-- because another running kernel does the work as well. Source: NVIDIA Nsight Systems, expert system; NVIDIA, "Getting
-- started with CUDA graphs", for the cost of a launch.
--
-- :reads gpu_event
-- :only_with gpu_event where dur_ns < launch_dur_ns
-- :finding kernels shorter than the call that launches them
-- :remedy Have fewer, longer kernels: a larger batch, torch.compile, which fuses ops, and a fused optimizer.
with kernel as (
    -- One row per kernel shorter than its launch call, with the call.
    select *
    from gpu_event
    where
        rank = $rank
        and step = $step
        and class = 'computation'
        and kernel_count = 1
        and not is_compiled
        and dur_ns < launch_dur_ns
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
