-- Modules that were placed on the ops with doubt, or not at all in some pass of the model.
--
-- A call is doubtful if another place fits as well (`confidence_pct` under 100). Only modules without parts count: the
-- doubt of what is around them is theirs. Times are those of the doubtful calls, without what backward does for them.
--
-- :reads model_op, module_span, shared_kernel, label, nesting, launch, event
-- :column rank BIGINT                 process rank
-- :column module_id BIGINT            the module
-- :column doubtful_call_count BIGINT  calls with another place that fits as well; of modules without parts
-- :column missing_call_count BIGINT   calls for which no op was found, and no kernel that serves them with another
--                                     module's
-- :column cpu_ns BIGINT               CPU time of the doubtful calls, without backward
-- :column gpu_ns BIGINT               GPU time of what the doubtful calls launched, without backward
-- :column event_id BIGINT             first op of the first doubtful call; NULL without one
with doubtful_call as (
    select
        module_span.rank,
        module_span.module_id,
        module_span.track_id,
        module_span.start_ns,
        module_span.end_ns
    from module_span
    left join model_op as part
        on module_span.rank = part.rank and module_span.module_id = part.parent_id
    where module_span.confidence_pct < 100 and part.module_id is null
),

inside as (
    select
        doubtful_call.rank,
        doubtful_call.module_id,
        nesting.event_id,
        nesting.start_ns,
        nesting.self_ns
    from nesting
    inner join label on nesting.rank = label.rank and nesting.event_id = label.event_id
    asof inner join doubtful_call
        on
            nesting.rank = doubtful_call.rank
            and nesting.track_id = doubtful_call.track_id
            and label.module_id = doubtful_call.module_id
            and nesting.start_ns >= doubtful_call.start_ns
    where nesting.start_ns < doubtful_call.end_ns and label.pass != 'backward'
),

doubt as (
    select
        rank,
        module_id,
        count(*) as doubtful_call_count
    from doubtful_call
    group by rank, module_id
),

on_cpu as (
    select
        rank,
        module_id,
        sum(self_ns)::bigint as cpu_ns,
        arg_min(event_id, (start_ns, event_id)) as event_id
    from inside
    group by rank, module_id
),

on_gpu as (
    select
        inside.rank,
        inside.module_id,
        sum(event.dur_ns)::bigint as gpu_ns
    from inside
    inner join launch on inside.rank = launch.rank and inside.event_id = launch.runtime_id
    inner join event on launch.rank = event.rank and launch.event_id = event.event_id
    group by inside.rank, inside.module_id
),

-- A module without an op of its own that another one's kernel serves has a place.
missing as (
    select
        model_op.rank,
        model_op.module_id,
        model_op.missing_call_count
    from model_op
    where
        model_op.missing_call_count > 0
        and not exists (
            select 1 from shared_kernel
            where shared_kernel.rank = model_op.rank and shared_kernel.module_id = model_op.module_id
        )
)

select
    model_op.rank,
    model_op.module_id,
    coalesce(doubt.doubtful_call_count, 0) as doubtful_call_count,
    coalesce(missing.missing_call_count, 0) as missing_call_count,
    coalesce(on_cpu.cpu_ns, 0) as cpu_ns,
    coalesce(on_gpu.gpu_ns, 0) as gpu_ns,
    on_cpu.event_id
from model_op
left join doubt on model_op.rank = doubt.rank and model_op.module_id = doubt.module_id
left join missing on model_op.rank = missing.rank and model_op.module_id = missing.module_id
left join on_cpu on model_op.rank = on_cpu.rank and model_op.module_id = on_cpu.module_id
left join on_gpu on model_op.rank = on_gpu.rank and model_op.module_id = on_gpu.module_id
where doubt.module_id is not null or missing.module_id is not null
order by model_op.rank, model_op.module_id
