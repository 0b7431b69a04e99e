-- Calls of the operating system's libraries and of NVIDIA's libraries.
select
    raw.event_id,
    'X' as ph,
    raw.category,
    coalesce(string_value.value, '') as name,
    process_of(raw."globalTid")::varchar as pid,
    thread_of(raw."globalTid")::varchar as tid,
    start_in_time(raw."start") as start_ns,
    duration_in_time(raw."start", raw."end") as dur_ns,
    null::bigint as correlation
from raw
left join string_value on raw."nameId" = string_value.id
