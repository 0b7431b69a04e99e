-- What launching GPU work costs, by API, step, phase, module or op: the calls, the waiting, and the idle GPU.
--
-- A launch is any call that has work on the GPU: of the runtime, the driver or HIP, for kernels, graphs, copies and
-- memsets. A graph launch is one call. A call is short if its GPU work takes less time than the call itself, a runtime
-- outlier above `runtime_cutoff_ns`, a delay outlier if its work starts more than `delay_cutoff_ns` after it returned
-- (HTA's marks and cutoffs). What they cost is the time in which the device was idle until their work started
-- (`…_idle_ns`); a call that the GPU's queue hides costs nothing. One call can have two marks.
--
-- :param by VARCHAR in (api, step, phase, module, op) = 'api'
--                                                what a row is
-- :param rank BIGINT = NULL                      only this rank
-- :param step BIGINT = NULL                      only launches in this step
-- :param phase PHASE = NULL
--                                                only launches in this phase
-- :param module VARCHAR = NULL                   only launches in this module or one in it, by path
-- :param runtime_cutoff_ns BIGINT >= 0 = 50000   longer calls are outliers
-- :param delay_cutoff_ns BIGINT >= 0 = 100000    longer delays are outliers
-- :reads launch, event, label, model_op, gpu_gap, step
-- :column rank BIGINT                         process rank
-- :column key VARCHAR                         name of the call, phase, path of the module or op; NULL when unknown
-- :column step BIGINT                         the step; NULL if not asked for, or outside every step
-- :column call_count BIGINT                   launch calls
-- :column gpu_event_count BIGINT              what they launched
-- :column call_ns BIGINT                      time inside the calls
-- :column call_mean_ns DOUBLE                 mean duration of a call
-- :column call_max_ns BIGINT                  longest call
-- :column gpu_time_ns BIGINT                  durations of what they launched
-- :column queue_median_ns BIGINT              median delay from the end of the call to the start of its first work
-- :column queue_max_ns BIGINT                 longest delay
-- :column idle_ns BIGINT                      time the device was idle until their work started
-- :column idle_pct DOUBLE                     the same as a share of the steps' duration; NULL without one
-- :column short_count BIGINT                  short calls
-- :column short_call_ns BIGINT                time inside them
-- :column short_idle_ns BIGINT                time the device was idle for them
-- :column runtime_outlier_count BIGINT        runtime outliers
-- :column runtime_outlier_call_ns BIGINT      time inside them
-- :column runtime_outlier_idle_ns BIGINT      time the device was idle for them
-- :column delay_outlier_count BIGINT          delay outliers
-- :column delay_outlier_queue_ns BIGINT       sum of their delays
-- :column delay_outlier_idle_ns BIGINT        time the device was idle for them
with call as (
    select
        launch.rank,
        launch.runtime_id,
        any_value(launch.op_id) as op_id,
        count(*) as gpu_event_count,
        any_value(launch.launch_dur_ns) as call_ns,
        sum(event.dur_ns) as gpu_ns,
        min(launch.queue_ns) as queue_ns,
        coalesce(sum(gpu_gap.end_ns - gpu_gap.start_ns), 0) as idle_ns
    from launch
    inner join event on launch.rank = event.rank and launch.event_id = event.event_id
    left join gpu_gap on launch.rank = gpu_gap.rank and launch.event_id = gpu_gap.next_id
    where launch.runtime_id is not null and is_asked($rank, launch.rank)
    group by launch.rank, launch.runtime_id
),

marked as (
    select
        call.*,
        case $by
            when 'api' then api.name
            when 'phase' then label.phase
            when 'module' then model_op.path
            when 'op' then op.name
        end as key,
        case when $by = 'step' then label.step end as step,
        call.call_ns > $runtime_cutoff_ns as is_runtime_outlier,
        call.gpu_ns < call.call_ns and call.call_ns <= $runtime_cutoff_ns as is_short,
        call.queue_ns > $delay_cutoff_ns as is_delay_outlier
    from call
    inner join event as api on call.rank = api.rank and call.runtime_id = api.event_id
    inner join label on call.rank = label.rank and call.runtime_id = label.event_id
    left join model_op on label.rank = model_op.rank and label.module_id = model_op.module_id
    left join event as op on call.rank = op.rank and call.op_id = op.event_id and $by = 'op'
    where
        is_asked($step, label.step)
        and is_asked($phase, label.phase)
        and in_module(model_op.path, $module)
),

wall as (
    select
        rank,
        case when $by = 'step' then step end as step,
        sum(end_ns - start_ns) as dur_ns
    from step
    where is_asked($step, step)
    group by all
)

select
    marked.rank,
    marked.key,
    marked.step,
    count(*) as call_count,
    sum(marked.gpu_event_count)::bigint as gpu_event_count,
    sum(marked.call_ns)::bigint as call_ns,
    avg(marked.call_ns) as call_mean_ns,
    max(marked.call_ns) as call_max_ns,
    sum(marked.gpu_ns)::bigint as gpu_time_ns,
    quantile_disc(marked.queue_ns, 0.5) as queue_median_ns,
    max(marked.queue_ns) as queue_max_ns,
    sum(marked.idle_ns)::bigint as idle_ns,
    case
        when $by != 'step' or marked.step is not null
            then 100.0 * sum(marked.idle_ns) / nullif(any_value(wall.dur_ns), 0)
    end as idle_pct,
    count(*) filter (where marked.is_short) as short_count,
    coalesce(sum(marked.call_ns) filter (where marked.is_short), 0)::bigint as short_call_ns,
    coalesce(sum(marked.idle_ns) filter (where marked.is_short), 0)::bigint as short_idle_ns,
    count(*) filter (where marked.is_runtime_outlier) as runtime_outlier_count,
    coalesce(sum(marked.call_ns) filter (where marked.is_runtime_outlier), 0)::bigint as runtime_outlier_call_ns,
    coalesce(sum(marked.idle_ns) filter (where marked.is_runtime_outlier), 0)::bigint as runtime_outlier_idle_ns,
    count(*) filter (where marked.is_delay_outlier) as delay_outlier_count,
    coalesce(sum(marked.queue_ns) filter (where marked.is_delay_outlier), 0)::bigint as delay_outlier_queue_ns,
    coalesce(sum(marked.idle_ns) filter (where marked.is_delay_outlier), 0)::bigint as delay_outlier_idle_ns
from marked
left join wall on marked.rank = wall.rank and marked.step is not distinct from wall.step
group by marked.rank, marked.key, marked.step
order by marked.rank, marked.step, idle_ns desc, marked.key
