-- GPU utilisation: FLOP against the peak (MFU, HFU), matrix units, memory traffic, occupancy and busy time.
--
-- All columns are computed from the events and from shapes, except the columns named `measured`. These are means of the
-- samples of Nsight Systems' GPU metrics. A sample counts to the work that started last on the device, or to the idle
-- part, so that the computed and the measured columns of a step or phase have the same time.
--
-- MFU is the time of the model's matrix products at the peak of their unit and precision, as a share of the observed
-- time. Repeated work does not count, and causal attention counts in full, as in most publications. With a single
-- precision, this is PaLM's definition (Chowdhery et al., "PaLM", 2022, appendix B). HFU has the products done by the
-- hardware: repeated products count, and causal attention counts half, the computed part.
--
-- Both are NULL without recorded shapes or without known GPU peaks, and too low if `modelled_pct` is far below 100. A
-- step or phase has the work it launched and the idle time while the GPU waited for it.
--
-- :param by VARCHAR in (run, step, phase) = 'run'
--                                one row per rank and device, and per step or phase if grouped by them
-- :param rank BIGINT = NULL      only this rank
-- :param device BIGINT = NULL    only this device
-- :param step BIGINT = NULL      only work of this step
-- :param phase PHASE = NULL      only work of this phase
-- :reads kernel_roofline, idle_part, kernel_shape, gpu_model, host_activity, phase_span, gpu_metric, gpu_event
-- :column rank RANK
-- :column device DEVICE          -1 without a device
-- :column step STEP              NULL if not grouped by step, or outside every step
-- :column phase PHASE            NULL if not grouped by phase, or unknown
-- :column model VARCHAR          GPU model for the peaks; NULL if unknown
-- :column wall_ns BIGINT         observed time: busy and idle time
-- :column gpu_busy_pct DOUBLE    busy time as a share of the observed time
-- :column matrix_time_pct DOUBLE time in kernels on matrix units (tensor cores), as a share of the busy time
-- :column model_flop BIGINT      FLOP of the model's matrix products, with causal attention in full; NULL if unknown
-- :column hardware_flop BIGINT   FLOP of the matrix products done by the hardware
-- :column mfu_pct DOUBLE         model FLOP utilisation
-- :column hfu_pct DOUBLE         hardware FLOP utilisation
-- :column tflop_per_s DOUBLE     hardware FLOP over the observed time, in 10^12 per second
-- :column fp32_utilisation_pct DOUBLE time that its products in FP32 take at peak, as a share of the busy time
-- :column tf32_utilisation_pct DOUBLE the same for TF32
-- :column fp16_utilisation_pct DOUBLE the same for FP16
-- :column bf16_utilisation_pct DOUBLE the same for BF16
-- :column fp8_utilisation_pct DOUBLE
--                                time of FP8 products at peak, as a share of the busy time
-- :column min_gb_per_s DOUBLE    least bytes of the modelled work over the busy time, in 10^9 per second
-- :column occupancy_pct DOUBLE   occupancy of kernels, weighted by duration; NULL if unknown
-- :column sm_efficiency_pct DOUBLE share of the multiprocessors that get a block, as a share of the busy time
-- :column cpu_busy_pct DOUBLE    time of the main thread in ops and non-waiting runtime calls, as a share of its time;
--                                NULL without steps. Data loading, other threads (such as the backward thread) and
--                                other processes are left out
-- :column modelled_pct DOUBLE    computation with known FLOP or bytes, as a share of the time in computation
-- :column measured_sm_pct DOUBLE measured: time in which the multiprocessors have work; NULL, as the following shares,
--                                without GPU metrics
-- :column measured_tensor_pct DOUBLE
--                                measured: time in which the tensor cores work
-- :column measured_memory_pct DOUBLE
--                                measured: reads and writes of the device's memory, as a share of its bandwidth
-- :column measured_link_pct DOUBLE
--                                measured: the busier direction of NVLink, as a share of its bandwidth
-- :column measured_count BIGINT  samples of the metrics

-- one row per selected GPU event, with its step or phase if grouped by them
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

-- one row per step or phase: busy time, FLOP and bytes
busy_time as (
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

-- one row per step or phase: idle time
idle_time as (
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

-- one row per step or phase: time of the main thread
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

-- one row per sample, with the step and phase of the work or of the idle part
metric_sample as (
    select
        gpu_metric.* exclude (start_ns, event_id),
        coalesce(gpu_metric.start_ns < idle_part.end_ns, false) as is_idle,
        if(is_idle, idle_part.step, gpu_event.step) as step,
        if(is_idle, idle_part.phase, gpu_event.phase) as phase,
        is_idle or gpu_event.event_id is not null as is_observed
    from gpu_metric
    asof left join idle_part
        on
            gpu_metric.rank = idle_part.rank
            and gpu_metric.device = idle_part.device
            and gpu_metric.start_ns >= idle_part.start_ns
    asof left join gpu_event
        on
            gpu_metric.rank = gpu_event.rank
            and gpu_metric.device = gpu_event.device
            and gpu_metric.start_ns >= gpu_event.start_ns
    where is_asked($rank, gpu_metric.rank) and is_asked($device, gpu_metric.device)
),

-- one row per step or phase: means of the samples
measured_use as (
    select
        rank,
        device,
        if($by = 'step', step, null) as of_step,
        if($by = 'phase', phase, null) as of_phase,
        avg(sm_active_pct) as sm_pct,
        avg(tensor_active_pct) as tensor_pct,
        avg(dram_read_pct) + avg(dram_write_pct) as memory_pct,
        greatest(avg(link_in_pct), avg(link_out_pct)) as link_pct,
        count(*) as sample_count
    from metric_sample
    where is_observed and is_asked($step, step) and is_asked($phase, phase)
    group by all
),

-- Every step or phase with GPU work or with idle time.
scope as (
    select
        rank,
        device,
        of_step,
        of_phase
    from busy_time
    union
    select
        rank,
        device,
        of_step,
        of_phase
    from idle_time
)

select
    scope.rank,
    scope.device,
    scope.of_step as step,
    scope.of_phase as phase,
    gpu_model.model,
    (coalesce(busy_time.busy_ns, 0) + coalesce(idle_time.idle_ns, 0))::bigint as wall_ns,
    100.0 * coalesce(busy_time.busy_ns, 0) / nullif(wall_ns, 0) as gpu_busy_pct,
    100.0 * coalesce(busy_time.matrix_unit_ns, 0) / nullif(busy_time.busy_ns, 0) as matrix_time_pct,
    busy_time.model_flop,
    busy_time.hardware_flop,
    100.0 * busy_time.model_ns / nullif(wall_ns, 0) as mfu_pct,
    100.0 * busy_time.hardware_ns / nullif(wall_ns, 0) as hfu_pct,
    1e-3 * busy_time.hardware_flop / nullif(wall_ns, 0) as tflop_per_s,
    100.0 * busy_time.fp32_ns / nullif(busy_time.busy_ns, 0) as fp32_utilisation_pct,
    100.0 * busy_time.tf32_ns / nullif(busy_time.busy_ns, 0) as tf32_utilisation_pct,
    100.0 * busy_time.fp16_ns / nullif(busy_time.busy_ns, 0) as fp16_utilisation_pct,
    100.0 * busy_time.bf16_ns / nullif(busy_time.busy_ns, 0) as bf16_utilisation_pct,
    100.0 * busy_time.fp8_ns / nullif(busy_time.busy_ns, 0) as fp8_utilisation_pct,
    busy_time.bytes / nullif(busy_time.busy_ns, 0) as min_gb_per_s,
    busy_time.occupancy_pct,
    busy_time.sm_efficiency_pct,
    100.0 * main_thread.in_op_ns / nullif(main_thread.host_ns, 0) as cpu_busy_pct,
    100.0 * busy_time.modelled_ns / nullif(busy_time.computation_ns, 0) as modelled_pct,
    measured_use.sm_pct as measured_sm_pct,
    measured_use.tensor_pct as measured_tensor_pct,
    measured_use.memory_pct as measured_memory_pct,
    measured_use.link_pct as measured_link_pct,
    coalesce(measured_use.sample_count, 0) as measured_count
from scope
left join busy_time
    on
        scope.rank = busy_time.rank
        and scope.device = busy_time.device
        and scope.of_step is not distinct from busy_time.of_step
        and scope.of_phase is not distinct from busy_time.of_phase
left join idle_time
    on
        scope.rank = idle_time.rank
        and scope.device = idle_time.device
        and scope.of_step is not distinct from idle_time.of_step
        and scope.of_phase is not distinct from idle_time.of_phase
left join main_thread
    on
        scope.rank = main_thread.rank
        and scope.of_step is not distinct from main_thread.of_step
        and scope.of_phase is not distinct from main_thread.of_phase
left join measured_use
    on
        scope.rank = measured_use.rank
        and scope.device = measured_use.device
        and scope.of_step is not distinct from measured_use.of_step
        and scope.of_phase is not distinct from measured_use.of_phase
left join gpu_model on scope.rank = gpu_model.rank and scope.device = gpu_model.device_id
order by scope.rank, scope.device, step nulls last, phase nulls last
