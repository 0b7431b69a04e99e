-- Compiled code that launches each kernel with a separate call.
--
-- Condition: stretches of code compiled by torch.compile in which no call launches more than one kernel. Bound:
-- replaying a CUDA graph takes no CPU time; the stretch's waits for the GPU stay. Source: PyTorch, torch.compile, mode
-- "reduce-overhead" (CUDA graphs); NVIDIA, "Getting started with CUDA graphs".
--
-- :reads compiled_span, gpu_event, gpu_wait
-- :only_with gpu_event where is_compiled
-- :finding stretches of compiled code that launch their kernels one by one
-- :remedy Compile with CUDA graphs: torch.compile(model, mode="reduce-overhead"), with inputs of fixed shapes.
-- :scenario cuda_graph
with launching_call as (
    select distinct
        runtime_id as event_id,
        call_track_id as track_id,
        call_start_ns as start_ns,
        kernel_count
    from gpu_event
    where rank = $rank and step = $step and is_compiled
),

-- One row per stretch of compiled code with launches, with the most kernels per call.
stretch as (
    select
        compiled_span.track_id,
        compiled_span.start_ns,
        compiled_span.end_ns,
        min(launching_call.event_id) as event_id,
        max(launching_call.kernel_count) as kernel_count
    from launching_call
    asof inner join compiled_span
        on launching_call.track_id = compiled_span.track_id and launching_call.start_ns >= compiled_span.start_ns
    where compiled_span.rank = $rank
    group by compiled_span.track_id, compiled_span.start_ns, compiled_span.end_ns
),

stretch_wait as (
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
    stretch.end_ns - stretch.start_ns - coalesce(stretch_wait.waited_ns, 0)::bigint as saved_ns,
    'compiled code' as name
from stretch
left join stretch_wait on stretch.track_id = stretch_wait.track_id and stretch.start_ns = stretch_wait.start_ns
where stretch.kernel_count = 1
order by stretch.event_id
