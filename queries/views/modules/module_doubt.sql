-- Modules with an uncertain position among the ops, or without any position in some pass of the model.
--
-- A call is doubtful if another position fits equally well (`confidence_pct` under 100). Doubtful calls are counted
-- only for modules without submodules, since the doubt of an outer module follows from its submodules. Times cover the
-- doubtful calls, without backward.
--
-- :reads model_op, module_span, shared_kernel, cpu_event, gpu_event
-- :column rank RANK
-- :column module_id BIGINT            the module
-- :column doubtful_call_count BIGINT  calls with another equally good position; only for modules without submodules
-- :column missing_call_count BIGINT   calls without a matching op, and without a kernel shared with another module
-- :column cpu_ns BIGINT               CPU time of the doubtful calls, without backward
-- :column gpu_ns BIGINT               GPU time launched by the doubtful calls, without backward
-- :column event_id BIGINT             first op of the first doubtful call; NULL without a doubtful call

-- one row per doubtful call of a module without submodules
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

-- one row per event inside a doubtful call, without backward
event_in_call as (
    select
        doubtful_call.rank,
        doubtful_call.module_id,
        cpu_event.event_id,
        cpu_event.start_ns,
        cpu_event.self_ns
    from cpu_event
    asof inner join doubtful_call
        on
            cpu_event.rank = doubtful_call.rank
            and cpu_event.track_id = doubtful_call.track_id
            and cpu_event.module_id = doubtful_call.module_id
            and cpu_event.start_ns >= doubtful_call.start_ns
    where cpu_event.start_ns < doubtful_call.end_ns and cpu_event.pass != 'backward'
),

doubt as (
    select
        rank,
        module_id,
        count(*) as doubtful_call_count
    from doubtful_call
    group by rank, module_id
),

cpu_time as (
    select
        rank,
        module_id,
        sum(self_ns)::bigint as cpu_ns,
        arg_min(event_id, (start_ns, event_id)) as event_id
    from event_in_call
    group by rank, module_id
),

gpu_time as (
    select
        event_in_call.rank,
        event_in_call.module_id,
        sum(gpu_event.dur_ns)::bigint as gpu_ns
    from event_in_call
    inner join gpu_event on event_in_call.rank = gpu_event.rank and event_in_call.event_id = gpu_event.runtime_id
    group by event_in_call.rank, event_in_call.module_id
),

-- A module without an op of its own has a position if it shares the kernel of another module.
missing_module as (
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
    coalesce(missing_module.missing_call_count, 0) as missing_call_count,
    coalesce(cpu_time.cpu_ns, 0) as cpu_ns,
    coalesce(gpu_time.gpu_ns, 0) as gpu_ns,
    cpu_time.event_id
from model_op
left join doubt on model_op.rank = doubt.rank and model_op.module_id = doubt.module_id
left join missing_module on model_op.rank = missing_module.rank and model_op.module_id = missing_module.module_id
left join cpu_time on model_op.rank = cpu_time.rank and model_op.module_id = cpu_time.module_id
left join gpu_time on model_op.rank = gpu_time.rank and model_op.module_id = gpu_time.module_id
where doubt.module_id is not null or missing_module.module_id is not null
order by model_op.rank, model_op.module_id
