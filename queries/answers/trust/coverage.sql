-- Where the GPU time in the file counts to: modules and named buckets, which add up to all of it.
--
-- `module` is time that a module explains, in forward, backward or recompute. `pre_window` was launched before the
-- trace began, `unlinked` has no launch in the trace for another reason. `communication` was launched by collective
-- calls outside modules, `gradient_accumulation` adds gradients up, `outside_steps` was launched outside every step
-- and every module. The rest is called by its phase. Times are sums of durations, so concurrent work counts each.
--
-- :param rank BIGINT = NULL      only this rank
-- :reads label, event, module_doubt
-- :column rank BIGINT            process rank
-- :column bucket VARCHAR         bucket
-- :column event_count BIGINT     GPU events in it
-- :column gpu_time_ns BIGINT     sum of their durations
-- :column gpu_time_pct DOUBLE    share of the rank's GPU time
-- :column doubtful_call_count BIGINT   module calls that might be elsewhere (`doubtful_modules`); 0 but for `module`
-- :column doubtful_gpu_time_ns BIGINT  the part of `gpu_time_ns` that they launched in forward; 0 but for `module`
-- :column missing_call_count BIGINT    calls of modules that were not found; 0 but for `module`
with doubt as (
    select
        rank,
        'module' as bucket,
        sum(doubtful_call_count)::bigint as doubtful_call_count,
        sum(gpu_ns)::bigint as doubtful_gpu_time_ns,
        sum(missing_call_count)::bigint as missing_call_count
    from module_doubt
    group by rank
)

select
    event.rank,
    label.bucket,
    count(*) as event_count,
    sum(event.dur_ns)::bigint as gpu_time_ns,
    100.0 * sum(event.dur_ns) / nullif(sum(sum(event.dur_ns)) over (partition by event.rank), 0) as gpu_time_pct,
    coalesce(any_value(doubt.doubtful_call_count), 0) as doubtful_call_count,
    coalesce(any_value(doubt.doubtful_gpu_time_ns), 0) as doubtful_gpu_time_ns,
    coalesce(any_value(doubt.missing_call_count), 0) as missing_call_count
from event
inner join label on event.rank = label.rank and event.event_id = label.event_id
left join doubt on label.rank = doubt.rank and label.bucket = doubt.bucket
where
    event.category in ('kernel', 'gpu_memcpy', 'gpu_memset')
    and is_asked($rank, event.rank)
group by event.rank, label.bucket
order by event.rank, gpu_time_ns desc, label.bucket
