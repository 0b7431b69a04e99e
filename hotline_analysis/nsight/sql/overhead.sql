-- Overhead of the profiler and of first calls, with Kineto's names.
--
-- The profiler's own overhead without a Kineto name becomes `Instrumentation`. The original name is kept in the args.
with named_overhead as (
    select
        raw.*,
        string_value.value as own_name,
        case regexp_replace(type.name, '^OVERHEAD_(CUPTI_)?', '')
            when 'DRIVER_COMPILER' then 'Driver Compiler'
            when 'BUFFER_FLUSH' then 'Buffer Flush'
            when 'INSTRUMENTATION' then 'Instrumentation'
            when 'RESOURCE' then 'Resource'
            when 'RUNTIME_TRIGGERED_MODULE_LOADING' then 'Runtime Triggered Module Loading'
            when 'LAZY_FUNCTION_LOADING' then 'Lazy Function Loading'
            when 'COMMAND_BUFFER_FULL' then 'Command Buffer Full'
            when 'ACTIVITY_BUFFER_REQUEST' then 'Activity Buffer Request'
        end as kineto_name
    from raw
    left join string_value on raw."nameId" = string_value.id
    left join enumeration as type on type.kind = 'ENUM_CUPTI_OVERHEAD_TYPE' and raw."overheadType" = type.id
)

select
    event_id,
    'X' as ph,
    'overhead' as category,
    coalesce(kineto_name, case when is_own then 'Instrumentation' end, own_name, 'Unknown') as name,
    process_of("globalTid")::varchar as pid,
    thread_of("globalTid")::varchar as tid,
    start_in_time("start") as start_ns,
    duration_in_time("start", "end") as dur_ns,
    "correlationId" as correlation,
    case when kineto_name is null and is_own and own_name is not null then json_object('name', own_name) end as args
from named_overhead
