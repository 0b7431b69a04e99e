-- Each piece of GPU work with its way there: launch call, queue, execution, and the idle time of the device before it.
--
-- A launch is any call that has work on the GPU: of the runtime, the driver or HIP, for kernels, graphs, copies and
-- memsets. The marks are HTA's: a short kernel runs for less time than its launch call takes, a runtime outlier is a
-- call above `runtime_cutoff_ns`, a delay outlier starts more than `delay_cutoff_ns` after its call returned.
--
-- :param rank BIGINT = NULL                      only this rank
-- :param device BIGINT = NULL                    only this device
-- :param stream BIGINT = NULL                    only this stream
-- :param step BIGINT = NULL                      only work launched in this step
-- :param phase PHASE = NULL
--                                                only work launched in this phase
-- :param module VARCHAR = NULL                   only work launched in this module or one in it, by path
-- :param runtime_cutoff_ns BIGINT >= 0 = 50000   longer calls are outliers
-- :param delay_cutoff_ns BIGINT >= 0 = 100000    longer delays are outliers
-- :param limit BIGINT >= 0 = NULL                so many, in order of their start; NULL for all
-- :reads gpu_work, event, gpu_gap
-- :column rank BIGINT               process rank
-- :column event_id BIGINT           the work
-- :column name VARCHAR              its short name
-- :column class VARCHAR             computation, communication or memory
-- :column device BIGINT             device number; -1 when the event names none
-- :column stream BIGINT             stream; NULL when the event names none
-- :column start_ns BIGINT           start of the work
-- :column runtime_id BIGINT         the launch call; NULL when the trace holds none
-- :column api VARCHAR               name of the call
-- :column op_id BIGINT              the op around the call; NULL without one
-- :column launch_ns BIGINT          duration of the call
-- :column queue_ns BIGINT           from the end of the call to the start of the work; 0 when it started earlier
-- :column gpu_ns BIGINT             duration of the work
-- :column kernel_count BIGINT       GPU events of the same call (over 1: a graph); NULL when unlinked
-- :column idle_before_ns BIGINT     time the device was idle until it started; 0 when other work ran
-- :column is_short BOOLEAN          it ran for less time than its call took, and the call is no outlier
-- :column is_runtime_outlier BOOLEAN the call is longer than the cutoff
-- :column is_delay_outlier BOOLEAN  the delay is longer than the cutoff
-- :column step BIGINT               step of the launch; NULL outside every step or when unlinked
-- :column phase VARCHAR             phase of the launch, likewise
-- :column module_path VARCHAR       module of the launch; NULL where none is known
select
    gpu_work.rank,
    gpu_work.event_id,
    gpu_work.short_name as name,
    gpu_work.class,
    gpu_work.device,
    gpu_work.stream,
    gpu_work.start_ns,
    gpu_work.runtime_id,
    call.name as api,
    gpu_work.op_id,
    gpu_work.launch_dur_ns as launch_ns,
    gpu_work.queue_ns,
    gpu_work.dur_ns as gpu_ns,
    gpu_work.kernel_count,
    coalesce(gpu_gap.end_ns - gpu_gap.start_ns, 0) as idle_before_ns,
    coalesce(
        gpu_work.dur_ns < gpu_work.launch_dur_ns and gpu_work.launch_dur_ns <= $runtime_cutoff_ns, false
    ) as is_short,
    coalesce(gpu_work.launch_dur_ns > $runtime_cutoff_ns, false) as is_runtime_outlier,
    coalesce(gpu_work.queue_ns > $delay_cutoff_ns, false) as is_delay_outlier,
    gpu_work.step,
    gpu_work.phase,
    gpu_work.module_path
from gpu_work
left join event as call on gpu_work.rank = call.rank and gpu_work.runtime_id = call.event_id
left join gpu_gap on gpu_work.rank = gpu_gap.rank and gpu_work.event_id = gpu_gap.next_id
where
    is_asked($rank, gpu_work.rank)
    and is_asked($device, gpu_work.device)
    and is_asked($stream, gpu_work.stream)
    and is_asked($step, gpu_work.step)
    and is_asked($phase, gpu_work.phase)
    and in_module(gpu_work.module_path, $module)
order by gpu_work.rank, gpu_work.start_ns, gpu_work.event_id
limit $limit
