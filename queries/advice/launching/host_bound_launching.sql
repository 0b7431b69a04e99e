-- Ops that take the CPU longer to launch than the GPU to run.
--
-- Condition: ops and launch calls (`op` in `host_activity`) of a step in which the kernels take less GPU time than the
-- CPU needs for launching, except if most kernels are launched by graphs or by code compiled by torch.compile. Bound:
-- launching takes no CPU time. Source: PyTorch performance tuning guide, "Use CUDA graphs" and "Fuse operations";
-- NVIDIA Nsight Systems, expert system, "GPU starvation".
--
-- :reads host_activity, compiled_span, gpu_event, cpu_event
-- :only_with gpu_event where runtime_id is not null
-- :finding the CPU needs {name}
-- :remedy Launch less for the same work: a larger batch, torch.compile (with mode="reduce-overhead" it uses CUDA
--     graphs), or a CUDA graph of the step.
-- :scenario cuda_graph
with piece as (
    -- One row per stretch of ops or launch calls outside of compiled code.
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
        and host_activity.kind = 'op'
        and host_activity.end_ns is not null
        and not coalesce(compiled_span.end_ns > host_activity.start_ns, false)
),

total as (
    select
        coalesce(sum(dur_ns) filter (where not is_compiled), 0) as gpu_ns,
        2 * count(*) filter (where kernel_count > 1 or is_compiled) < count(*) as has_launches,
        count(*) filter (where not is_compiled) as work_count,
        (select sum(end_ns - start_ns) from piece) as cpu_ns
    from gpu_event
    where rank = $rank and step = $step and runtime_id is not null
)

select
    begun.event_id,
    'host' as effect,
    piece.track_id,
    piece.start_ns,
    piece.end_ns,
    piece.end_ns - piece.start_ns as saved_ns,
    format(
        '{} to launch work that runs for {}',
        duration_text(total.cpu_ns / total.work_count),
        duration_text(total.gpu_ns / total.work_count)
    ) as name
from piece
cross join total
asof inner join last_begun('cpu_event', $rank) as begun
    on piece.track_id = begun.track_id and piece.start_ns >= begun.start_ns
where total.has_launches and total.gpu_ns < total.cpu_ns
order by begun.event_id, piece.start_ns
