-- Kernels.
select
    raw.event_id,
    'X' as ph,
    'kernel' as category,
    coalesce(string_value.kernel_name, '') as name,
    raw."deviceId"::varchar as pid,
    raw."streamId"::varchar as tid,
    start_in_time(raw."start") as start_ns,
    duration_in_time(raw."start", raw."end") as dur_ns,
    raw."correlationId" as correlation,
    raw."deviceId" as device,
    raw."contextId" as context,
    raw."streamId" as stream,
    '[' || raw."gridX" || ',' || raw."gridY" || ',' || raw."gridZ" || ']' as grid,
    '[' || raw."blockX" || ',' || raw."blockY" || ',' || raw."blockZ" || ']' as block,
    raw."registersPerThread" as registers_per_thread,
    raw."sharedMemory" as shared_memory_bytes,
    -- Same formulas as Kineto, with the device's number of multiprocessors.
    1.0 * raw."gridX" * raw."gridY" * raw."gridZ" / nullif(device_size.sm_count, 0) as blocks_per_sm,
    1.0 * raw."gridX" * raw."gridY" * raw."gridZ" * raw."blockX" * raw."blockY" * raw."blockZ"
    / 32 / nullif(device_size.sm_count, 0) as warps_per_sm,
    null::bigint as bytes
from raw
left join string_value on raw.name = string_value.id
left join device_size on raw."deviceId" = device_size.device_id
