-- Copies, with Kineto's names: `Memcpy HtoD (Pinned -> Device)`.
select
    raw.event_id,
    'X' as ph,
    'gpu_memcpy' as category,
    'Memcpy '
    || coalesce(
        regexp_replace(
            regexp_extract(copy_kind.name, '^CUDA_MEMCPY_KIND_(?:UVM_)?([A-Z]TO[A-Z])$', 1), '^(.)TO(.)$', '\1to\2'
        ), ''
    )
    || coalesce(' (' || source.label || ' -> ' || destination.label || ')', '') as name,
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
left join enumeration as copy_kind on copy_kind.kind = 'ENUM_CUDA_MEMCPY_OPER' and raw."copyKind" = copy_kind.id
left join enumeration as source on source.kind = 'ENUM_CUDA_MEM_KIND' and raw."srcKind" = source.id
left join enumeration as destination
    on destination.kind = 'ENUM_CUDA_MEM_KIND' and raw."dstKind" = destination.id
