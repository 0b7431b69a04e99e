-- Compiled code that launches its kernels one by one, each by a call of the CPU.
--
-- Condition: stretches inside of code that torch.compile made, in which no call launches more than one kernel. Bound:
-- replaying a CUDA graph takes no time of the CPU; what such a stretch waits for the GPU stays. Source: PyTorch,
-- torch.compile, mode "reduce-overhead" (CUDA graphs); NVIDIA, "Getting started with CUDA graphs".
--
-- :reads compiled_span, gpu_work, event, gpu_wait
-- :only_with gpu_work where is_compiled
-- :what stretches of compiled code that launch their kernels one by one
-- :do Compile with CUDA graphs: torch.compile(model, mode="reduce-overhead"), with inputs of fixed shapes.
-- :scenario cuda_graph
with launched as (
    select distinct
        call.event_id,
        call.track_id,
        call.start_ns,
        gpu_work.kernel_count
    from gpu_work
    inner join event as call on gpu_work.rank = call.rank and gpu_work.runtime_id = call.event_id
    where gpu_work.rank = $rank and gpu_work.step = $step and gpu_work.is_compiled
),

stretch as (
    select
        compiled_span.track_id,
        compiled_span.start_ns,
        compiled_span.end_ns,
        min(launched.event_id) as event_id,
        max(launched.kernel_count) as kernel_count
    from launched
    asof inner join compiled_span
        on launched.track_id = compiled_span.track_id and launched.start_ns >= compiled_span.start_ns
    where compiled_span.rank = $rank
    group by compiled_span.track_id, compiled_span.start_ns, compiled_span.end_ns
),

waited as (
    select
        stretch.track_id,
        stretch.start_ns,
        sum(gpu_wait.waited_ns) as waited_ns
    from gpu_wait
    asof inner join stretch on gpu_wait.track_id = stretch.track_id and gpu_wait.start_ns >= stretch.start_ns
    where gpu_wait.rank = $rank and gpu_wait.end_ns <= stretch.end_ns
    group by stretch.track_id, stretch.start_ns
)

select
    stretch.event_id,
    'host' as effect,
    stretch.track_id,
    stretch.start_ns,
    stretch.end_ns,
    stretch.end_ns - stretch.start_ns - coalesce(waited.waited_ns, 0)::bigint as saved_ns,
    'compiled code' as name
from stretch
left join waited on stretch.track_id = waited.track_id and stretch.start_ns = waited.start_ns
where stretch.kernel_count = 1
order by stretch.event_id
