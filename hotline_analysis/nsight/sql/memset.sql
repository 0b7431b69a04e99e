-- Memsets, with Kineto's names: `Memset (Device)`.
select
    raw.event_id,
    'X' as ph,
    'gpu_memset' as category,
    'Memset' || coalesce(' (' || memory.label || ')', '') as name,
    raw."deviceId"::varchar as pid,
    raw."streamId"::varchar as tid,
    start_in_time(raw."start") as start_ns,
    duration_in_time(raw."start", raw."end") as dur_ns,
    raw."correlationId" as correlation,
    raw."deviceId" as device,
    raw."contextId" as context,
    raw."streamId" as stream,
    null::varchar as grid,
    null::varchar as block,
    null::bigint as registers_per_thread,
    null::bigint as shared_memory_bytes,
    null::double as blocks_per_sm,
    null::double as warps_per_sm,
    raw.bytes
from raw
left join enumeration as memory on memory.kind = 'ENUM_CUDA_MEM_KIND' and raw."memKind" = memory.id
