-- How much of the GPU is used: FLOP against its peak (MFU, HFU), matrix units, memory traffic, occupancy and busy time.
--
-- MFU is the time that the model's matrix products take at the peak of the unit and precision that they run in, as a
-- share of the observed time: without work that is repeated, and with causal attention counted in full, as others count
-- it. With one precision that is PaLM's definition (Chowdhery et al., "PaLM", 2022, appendix B). HFU has the products
-- that the hardware does: repeated ones too, and of causal attention only the half that is computed. Both are NULL if
-- no shapes were recorded or the GPU's peaks are not known, and too low where `modelled_pct` is far below 100. A step
-- or phase has the work that it launched, and the idle time while it kept the GPU waiting.
--
-- :param by VARCHAR in (run, step, phase) = 'run'
--                                what a row is
-- :param rank BIGINT = NULL      only this rank
-- :param device BIGINT = NULL    only this device
-- :param step BIGINT = NULL      only work of this step
-- :param phase PHASE = NULL      only work of this phase
-- :reads kernel_roofline, idle_part, kernel_shape, gpu_model, host_activity, phase_span
-- :column rank BIGINT            process rank
-- :column device BIGINT          device number; -1 when the events name none
-- :column step BIGINT            the step; NULL if not asked for, or outside every step
-- :column phase VARCHAR          the phase; NULL if not asked for, or unknown
-- :column model VARCHAR          model of the GPU that the peaks are of; NULL where it is not known
-- :column wall_ns BIGINT         observed time: busy and idle
-- :column gpu_busy_pct DOUBLE    time in which the device did anything, as a share of it
-- :column matrix_time_pct DOUBLE time in kernels on matrix units (tensor cores), as a share of the busy time
-- :column model_flop BIGINT      FLOP of matrix products that the model needs, causal attention in full; NULL when
--                                unknown
-- :column hardware_flop BIGINT   FLOP of matrix products that were done
-- :column mfu_pct DOUBLE         model FLOP utilisation
-- :column hfu_pct DOUBLE         hardware FLOP utilisation
-- :column tflop_per_s DOUBLE     hardware FLOP over the observed time, in 10^12 per second
-- :column fp32_utilisation_pct DOUBLE time that its products in FP32 take at peak, as a share of the busy time
-- :column tf32_utilisation_pct DOUBLE likewise in TF32
-- :column fp16_utilisation_pct DOUBLE likewise in FP16
-- :column bf16_utilisation_pct DOUBLE likewise in BF16
-- :column fp8_utilisation_pct DOUBLE  likewise in FP8
-- :column min_gb_per_s DOUBLE    least bytes of the modelled work over the busy time, in 10^9 per second
-- :column occupancy_pct DOUBLE   occupancy of kernels, weighted by their time; NULL where it is not known
-- :column sm_efficiency_pct DOUBLE share of the multiprocessors that get a block, likewise
-- :column cpu_busy_pct DOUBLE    time of the main thread in ops and calls of the runtime that do not wait for the GPU,
--                                as a share of its time; NULL without steps. Not in it: loading data, and other threads
--                                and processes, such as the thread that runs backward
-- :column modelled_pct DOUBLE    computation whose FLOP or bytes are known, as a share of the time in computation
with work as (
    select
        kernel_roofline.*,
        if($by = 'step', kernel_roofline.step, null) as of_step,
        if($by = 'phase', kernel_roofline.phase, null) as of_phase,
        kernel_shape.occupancy_pct,
        kernel_shape.sm_efficiency_pct,
        1e9 * dense_flop / matrix_flop_per_s as model_ns
    from kernel_roofline
    left join kernel_shape
        on kernel_roofline.rank = kernel_shape.rank and kernel_roofline.event_id = kernel_shape.event_id
    where
        is_asked($rank, kernel_roofline.rank)
        and is_asked($device, kernel_roofline.device)
        and is_asked($step, kernel_roofline.step)
        and is_asked($phase, kernel_roofline.phase)
),

busy as (
    select
        rank,
        device,
        of_step,
        of_phase,
        sum(owned_ns) as busy_ns,
        sum(owned_ns) filter (where unit = 'matrix') as matrix_unit_ns,
        sum(dense_flop)::bigint as model_flop,
        sum(matrix_flop)::bigint as hardware_flop,
        sum(model_ns) as model_ns,
        sum(matrix_ns) filter (where matrix_flop > 0) as hardware_ns,
        sum(matrix_ns) filter (where matrix_flop > 0 and "precision" = 'fp32') as fp32_ns,
        sum(matrix_ns) filter (where matrix_flop > 0 and "precision" = 'tf32') as tf32_ns,
        sum(matrix_ns) filter (where matrix_flop > 0 and "precision" = 'fp16') as fp16_ns,
        sum(matrix_ns) filter (where matrix_flop > 0 and "precision" = 'bf16') as bf16_ns,
        sum(matrix_ns) filter (where matrix_flop > 0 and "precision" = 'fp8') as fp8_ns,
        sum(bytes) as bytes,
        sum(occupancy_pct * dur_ns) / nullif(sum(dur_ns) filter (where occupancy_pct is not null), 0) as occupancy_pct,
        sum(sm_efficiency_pct * dur_ns) / nullif(sum(dur_ns) filter (where sm_efficiency_pct is not null), 0)
            as sm_efficiency_pct,
        sum(owned_ns) filter (where class = 'computation') as computation_ns,
        coalesce(sum(owned_ns) filter (where class = 'computation' and work_id is not null), 0) as modelled_ns
    from work
    group by rank, device, of_step, of_phase
),

idle as (
    select
        rank,
        device,
        if($by = 'step', step, null) as of_step,
        if($by = 'phase', phase, null) as of_phase,
        sum(end_ns - start_ns) as idle_ns
    from idle_part
    where
        is_asked($rank, rank)
        and is_asked($device, device)
        and is_asked($step, step)
        and is_asked($phase, phase)
    group by all
),

main_track as (
    select distinct
        rank,
        track_id
    from phase_span
    where is_main
),

main_thread as (
    select
        main_track.rank,
        if($by = 'step', host_activity.step, null) as of_step,
        if($by = 'phase', host_activity.phase, null) as of_phase,
        sum(end_ns - start_ns) as host_ns,
        coalesce(sum(end_ns - start_ns) filter (where kind in ('cpu_tensor', 'op')), 0) as in_op_ns
    from host_activity
    inner join main_track
        on host_activity.rank = main_track.rank and host_activity.track_id = main_track.track_id
    where
        is_asked($rank, main_track.rank)
        and is_asked($step, host_activity.step)
        and is_asked($phase, host_activity.phase)
    group by all
),

-- Every step or phase that has work, or kept the GPU waiting.
scope as (
    select
        rank,
        device,
        of_step,
        of_phase
    from busy
    union
    select
        rank,
        device,
        of_step,
        of_phase
    from idle
)

select
    scope.rank,
    scope.device,
    scope.of_step as step,
    scope.of_phase as phase,
    gpu_model.model,
    (coalesce(busy.busy_ns, 0) + coalesce(idle.idle_ns, 0))::bigint as wall_ns,
    100.0 * coalesce(busy.busy_ns, 0) / nullif(wall_ns, 0) as gpu_busy_pct,
    100.0 * coalesce(busy.matrix_unit_ns, 0) / nullif(busy.busy_ns, 0) as matrix_time_pct,
    busy.model_flop,
    busy.hardware_flop,
    100.0 * busy.model_ns / nullif(wall_ns, 0) as mfu_pct,
    100.0 * busy.hardware_ns / nullif(wall_ns, 0) as hfu_pct,
    1e-3 * busy.hardware_flop / nullif(wall_ns, 0) as tflop_per_s,
    100.0 * busy.fp32_ns / nullif(busy.busy_ns, 0) as fp32_utilisation_pct,
    100.0 * busy.tf32_ns / nullif(busy.busy_ns, 0) as tf32_utilisation_pct,
    100.0 * busy.fp16_ns / nullif(busy.busy_ns, 0) as fp16_utilisation_pct,
    100.0 * busy.bf16_ns / nullif(busy.busy_ns, 0) as bf16_utilisation_pct,
    100.0 * busy.fp8_ns / nullif(busy.busy_ns, 0) as fp8_utilisation_pct,
    busy.bytes / nullif(busy.busy_ns, 0) as min_gb_per_s,
    busy.occupancy_pct,
    busy.sm_efficiency_pct,
    100.0 * main_thread.in_op_ns / nullif(main_thread.host_ns, 0) as cpu_busy_pct,
    100.0 * busy.modelled_ns / nullif(busy.computation_ns, 0) as modelled_pct
from scope
left join busy
    on
        scope.rank = busy.rank
        and scope.device = busy.device
        and scope.of_step is not distinct from busy.of_step
        and scope.of_phase is not distinct from busy.of_phase
left join idle
    on
        scope.rank = idle.rank
        and scope.device = idle.device
        and scope.of_step is not distinct from idle.of_step
        and scope.of_phase is not distinct from idle.of_phase
left join main_thread
    on
        scope.rank = main_thread.rank
        and scope.of_step is not distinct from main_thread.of_step
        and scope.of_phase is not distinct from main_thread.of_phase
left join gpu_model on scope.rank = gpu_model.rank and scope.device = gpu_model.device_id
order by scope.rank, scope.device, step nulls last, phase nulls last
