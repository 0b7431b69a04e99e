-- Calls of the CUDA runtime and driver.
select
    raw.event_id,
    'X' as ph,
    case when class.name like '%DRIVER' then 'cuda_driver' else 'cuda_runtime' end as category,
    coalesce(string_value.call_name, '') as name,
    process_of(raw."globalTid")::varchar as pid,
    thread_of(raw."globalTid")::varchar as tid,
    start_in_time(raw."start") as start_ns,
    duration_in_time(raw."start", raw."end") as dur_ns,
    raw."correlationId" as correlation
from raw
left join string_value on raw."nameId" = string_value.id
left join enumeration as class on class.kind = 'ENUM_NSYS_EVENT_CLASS' and raw."eventClass" = class.id
