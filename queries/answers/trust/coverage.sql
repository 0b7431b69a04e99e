-- GPU time of the file by bucket: modules and named buckets, which add up to the total.
--
--   module                 time explained by a module, in forward, backward or recompute
--   pre_window             launched before the trace began
--   unlinked               no launch in the trace, for another reason
--   communication          launched by collective calls outside modules
--   gradient_accumulation  adds up gradients
--   outside_steps          launched outside every step and every module
--
-- Other buckets are named after their phase. Times are sums of durations, so concurrent work counts several times.
--
-- :param rank BIGINT = NULL      only this rank
-- :reads gpu_event, module_doubt
-- :column rank RANK
-- :column bucket VARCHAR         bucket
-- :column event_count BIGINT     GPU events in the bucket
-- :column gpu_time_ns BIGINT     sum of the durations
-- :column gpu_time_pct DOUBLE    share of the rank's GPU time
-- :column doubtful_call_count BIGINT
--                                module calls with another possible position (`doubtful_modules`); 0 except for
--                                `module`
-- :column doubtful_gpu_time_ns BIGINT
--                                part of `gpu_time_ns` launched in forward by these calls; 0 except for `module`
-- :column missing_call_count BIGINT
--                                module calls without a position; 0 except for `module`
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
    gpu_event.rank,
    gpu_event.bucket,
    count(*) as event_count,
    sum(gpu_event.dur_ns)::bigint as gpu_time_ns,
    100.0 * sum(gpu_event.dur_ns) / nullif(sum(sum(gpu_event.dur_ns)) over (partition by gpu_event.rank), 0)
        as gpu_time_pct,
    coalesce(any_value(doubt.doubtful_call_count), 0) as doubtful_call_count,
    coalesce(any_value(doubt.doubtful_gpu_time_ns), 0) as doubtful_gpu_time_ns,
    coalesce(any_value(doubt.missing_call_count), 0) as missing_call_count
from gpu_event
left join doubt on gpu_event.rank = doubt.rank and gpu_event.bucket = doubt.bucket
where is_asked($rank, gpu_event.rank)
group by gpu_event.rank, gpu_event.bucket
order by gpu_event.rank, gpu_time_ns desc, gpu_event.bucket
