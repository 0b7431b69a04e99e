-- Whole CUDA graphs. By default, Nsight Systems records graphs instead of the kernels in them.
select
    raw.event_id,
    'X' as ph,
    'kernel' as category,
    concat('CUDA graph ', raw."graphId") as name,
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
    null::bigint as bytes
from raw
