-- The launch of each GPU event: launching call, queue time, execution, and idle time of the device before it.
--
-- A launch is any call with GPU work: a call of the runtime, the driver or HIP for kernels, graphs, copies and memsets.
-- The flags follow HTA. A short kernel runs for less time than its launching call. A runtime outlier is a call
-- longer than `runtime_cutoff_ns`. A delay outlier starts more than `delay_cutoff_ns` after the end of its call.
--
-- :param rank BIGINT = NULL                      only this rank
-- :param device BIGINT = NULL                    only this device
-- :param stream BIGINT = NULL                    only this stream
-- :param step BIGINT = NULL                      only work launched in this step
-- :param phase PHASE = NULL                      only work launched in this phase
-- :param module VARCHAR = NULL                   only work launched in this module or its submodules, by path
-- :param runtime_cutoff_ns BIGINT >= 0 = 50000   longer calls are runtime outliers
-- :param delay_cutoff_ns BIGINT >= 0 = 100000    longer delays are delay outliers
-- :param limit BIGINT >= 0 = NULL                maximum number of rows, in order of start; NULL for all
-- :reads gpu_event, gpu_gap
-- :column rank RANK
-- :column event_id BIGINT           the GPU event
-- :column name VARCHAR              short name of the GPU event
-- :column class KERNEL_CLASS
-- :column device DEVICE             -1 without a device
-- :column stream BIGINT             stream; NULL if the event has no stream
-- :column start_ns BIGINT           start of the work
-- :column runtime_id BIGINT         launching call; NULL if the trace has no launching call
-- :column api VARCHAR               name of the call
-- :column op_id BIGINT              op around the call; NULL without an op
-- :column launch_ns BIGINT          duration of the call
-- :column queue_ns BIGINT           time from the end of the call to the start of the work; 0 if the work started
--                                   earlier
-- :column gpu_ns BIGINT             duration of the work
-- :column kernel_count BIGINT       GPU events of the same call (over 1: a graph); NULL without a launch
-- :column idle_before_ns BIGINT     idle time of the device before the work; 0 if other work ran
-- :column is_short BOOLEAN          the work ran for less time than its call, and the call is no runtime outlier
-- :column is_runtime_outlier BOOLEAN the call is longer than the cutoff
-- :column is_delay_outlier BOOLEAN  the queue time is longer than the cutoff
-- :column step STEP                 of the launch; NULL outside every step or without a launch
-- :column phase PHASE               of the launch; NULL outside every phase or without a launch
-- :column module_path VARCHAR       module of the launch; NULL if unknown
select
    gpu_event.rank,
    gpu_event.event_id,
    gpu_event.short_name as name,
    gpu_event.class,
    gpu_event.device,
    gpu_event.stream,
    gpu_event.start_ns,
    gpu_event.runtime_id,
    gpu_event.api,
    gpu_event.op_id,
    gpu_event.launch_dur_ns as launch_ns,
    gpu_event.queue_ns,
    gpu_event.dur_ns as gpu_ns,
    gpu_event.kernel_count,
    coalesce(gpu_gap.end_ns - gpu_gap.start_ns, 0) as idle_before_ns,
    coalesce(
        gpu_event.dur_ns < gpu_event.launch_dur_ns and gpu_event.launch_dur_ns <= $runtime_cutoff_ns, false
    ) as is_short,
    coalesce(gpu_event.launch_dur_ns > $runtime_cutoff_ns, false) as is_runtime_outlier,
    coalesce(gpu_event.queue_ns > $delay_cutoff_ns, false) as is_delay_outlier,
    gpu_event.step,
    gpu_event.phase,
    gpu_event.module_path
from gpu_event
left join gpu_gap on gpu_event.rank = gpu_gap.rank and gpu_event.event_id = gpu_gap.next_id
where
    is_asked($rank, gpu_event.rank)
    and is_asked($device, gpu_event.device)
    and is_asked($stream, gpu_event.stream)
    and is_asked($step, gpu_event.step)
    and is_asked($phase, gpu_event.phase)
    and in_module(gpu_event.module_path, $module)
order by gpu_event.rank, gpu_event.start_ns, gpu_event.event_id
limit $limit
