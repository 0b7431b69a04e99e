-- Cost of launching GPU work by API, step, phase, module or op: calls, queue times, and idle time of the GPU.
--
-- A launch is any call with GPU work: a call of the runtime, the driver or HIP for kernels, graphs, copies and memsets.
-- A graph launch counts as a single call. The flags and cutoffs follow HTA. A call is short if its GPU work takes less
-- time than the call. A runtime outlier is a call longer than `runtime_cutoff_ns`. A call is a delay outlier if its
-- work starts more than `delay_cutoff_ns` after the end of the call.
--
-- The cost of these calls is the idle time of the device until their work started (`…_idle_ns`). A call during queued
-- GPU work costs no time. A call can have two flags.
--
-- :param by VARCHAR in (api, step, phase, module, op) = 'api'
--                                                one row per value of this column
-- :param rank BIGINT = NULL                      only this rank
-- :param step BIGINT = NULL                      only launches in this step
-- :param phase PHASE = NULL                      only launches in this phase
-- :param module VARCHAR = NULL                   only launches in this module or its submodules, by path
-- :param runtime_cutoff_ns BIGINT >= 0 = 50000   longer calls are runtime outliers
-- :param delay_cutoff_ns BIGINT >= 0 = 100000    longer delays are delay outliers
-- :reads gpu_event, gpu_gap, step
-- :column rank RANK
-- :column key VARCHAR                         name of the call, phase, path of the module, or op; NULL if unknown
-- :column step STEP                           NULL if not grouped by step, or outside every step
-- :column call_count BIGINT                   number of launching calls
-- :column gpu_event_count BIGINT              number of launched GPU events
-- :column call_ns BIGINT                      time inside the calls
-- :column call_mean_ns DOUBLE                 mean duration of a call
-- :column call_max_ns BIGINT                  longest call
-- :column gpu_time_ns BIGINT                  duration of the launched GPU events
-- :column queue_median_ns BIGINT              median delay from the end of a call to the start of its first work
-- :column queue_max_ns BIGINT                 longest delay
-- :column idle_ns BIGINT                      idle time of the device until the work started
-- :column idle_pct DOUBLE                     idle time as a share of the duration of the steps; NULL without a step
-- :column short_count BIGINT                  number of short calls
-- :column short_call_ns BIGINT                time inside short calls
-- :column short_idle_ns BIGINT                idle time of the device before the work of short calls
-- :column runtime_outlier_count BIGINT        number of runtime outliers
-- :column runtime_outlier_call_ns BIGINT      time inside runtime outliers
-- :column runtime_outlier_idle_ns BIGINT      idle time of the device before the work of runtime outliers
-- :column delay_outlier_count BIGINT          number of delay outliers
-- :column delay_outlier_queue_ns BIGINT       sum of the delays of delay outliers
-- :column delay_outlier_idle_ns BIGINT        idle time of the device before the work of delay outliers

-- one row per launching call, with its GPU work and idle time
with call as (
    select
        gpu_event.rank,
        gpu_event.runtime_id,
        any_value(gpu_event.api) as api,
        any_value(gpu_event.op) as op,
        any_value(gpu_event.step) as step,
        any_value(gpu_event.phase) as phase,
        any_value(gpu_event.module_path) as module_path,
        count(*) as gpu_event_count,
        any_value(gpu_event.launch_dur_ns) as call_ns,
        sum(gpu_event.dur_ns) as gpu_ns,
        min(gpu_event.queue_ns) as queue_ns,
        coalesce(sum(gpu_gap.end_ns - gpu_gap.start_ns), 0) as idle_ns
    from gpu_event
    left join gpu_gap on gpu_event.rank = gpu_gap.rank and gpu_event.event_id = gpu_gap.next_id
    where gpu_event.runtime_id is not null and is_asked($rank, gpu_event.rank)
    group by gpu_event.rank, gpu_event.runtime_id
),

-- one row per selected launching call, with its key and flags
marked_call as (
    select
        call.* replace (case when $by = 'step' then call.step end as step),
        case $by
            when 'api' then call.api
            when 'phase' then call.phase
            when 'module' then call.module_path
            when 'op' then call.op
        end as key,
        call.call_ns > $runtime_cutoff_ns as is_runtime_outlier,
        call.gpu_ns < call.call_ns and call.call_ns <= $runtime_cutoff_ns as is_short,
        call.queue_ns > $delay_cutoff_ns as is_delay_outlier
    from call
    where
        is_asked($step, call.step)
        and is_asked($phase, call.phase)
        and in_module(call.module_path, $module)
),

wall_time as (
    select
        rank,
        case when $by = 'step' then step end as step,
        sum(end_ns - start_ns) as dur_ns
    from step
    where is_asked($step, step)
    group by all
)

select
    marked_call.rank,
    marked_call.key,
    marked_call.step,
    count(*) as call_count,
    sum(marked_call.gpu_event_count)::bigint as gpu_event_count,
    sum(marked_call.call_ns)::bigint as call_ns,
    avg(marked_call.call_ns) as call_mean_ns,
    max(marked_call.call_ns) as call_max_ns,
    sum(marked_call.gpu_ns)::bigint as gpu_time_ns,
    quantile_disc(marked_call.queue_ns, 0.5) as queue_median_ns,
    max(marked_call.queue_ns) as queue_max_ns,
    sum(marked_call.idle_ns)::bigint as idle_ns,
    case
        when $by != 'step' or marked_call.step is not null
            then 100.0 * sum(marked_call.idle_ns) / nullif(any_value(wall_time.dur_ns), 0)
    end as idle_pct,
    count(*) filter (where marked_call.is_short) as short_count,
    coalesce(sum(marked_call.call_ns) filter (where marked_call.is_short), 0)::bigint as short_call_ns,
    coalesce(sum(marked_call.idle_ns) filter (where marked_call.is_short), 0)::bigint as short_idle_ns,
    count(*) filter (where marked_call.is_runtime_outlier) as runtime_outlier_count,
    coalesce(sum(marked_call.call_ns) filter (where marked_call.is_runtime_outlier), 0)::bigint
        as runtime_outlier_call_ns,
    coalesce(sum(marked_call.idle_ns) filter (where marked_call.is_runtime_outlier), 0)::bigint
        as runtime_outlier_idle_ns,
    count(*) filter (where marked_call.is_delay_outlier) as delay_outlier_count,
    coalesce(sum(marked_call.queue_ns) filter (where marked_call.is_delay_outlier), 0)::bigint
        as delay_outlier_queue_ns,
    coalesce(sum(marked_call.idle_ns) filter (where marked_call.is_delay_outlier), 0)::bigint as delay_outlier_idle_ns
from marked_call
left join wall_time on marked_call.rank = wall_time.rank and marked_call.step is not distinct from wall_time.step
group by marked_call.rank, marked_call.key, marked_call.step
order by marked_call.rank, marked_call.step, idle_ns desc, marked_call.key
