-- Kernels, copies and memsets.
with parsed_event as (
    select
        event_id,
        from_json(
            args,
            '{"device":"BIGINT","context":"BIGINT","stream":"BIGINT","queued":"BIGINT","grid":"VARCHAR",
              "block":"VARCHAR","registers per thread":"BIGINT","shared memory":"BIGINT","blocks per SM":"DOUBLE",
              "warps per SM":"DOUBLE","est. achieved occupancy %":"DOUBLE","bytes":"BIGINT",
              "memory bandwidth (GB/s)":"DOUBLE","kind":"VARCHAR"}'
        ) as a
    from batch
    where category in ('kernel', 'gpu_memcpy', 'gpu_memset')
)

select
    event_id,
    a.device,
    a.context,
    a.stream,
    a.queued,
    a.grid,
    a.block,
    a."registers per thread" as registers_per_thread,
    a."shared memory" as shared_memory_bytes,
    a."blocks per SM" as blocks_per_sm,
    a."warps per SM" as warps_per_sm,
    a."est. achieved occupancy %" as occupancy_pct,
    a.bytes,
    a."memory bandwidth (GB/s)" as bandwidth_gb_per_s,
    a.kind,
    (a.device is not null)::integer + (a.context is not null)::integer + (a.stream is not null)::integer
    + (a.queued is not null)::integer + (a.grid is not null)::integer + (a.block is not null)::integer
    + (a."registers per thread" is not null)::integer + (a."shared memory" is not null)::integer
    + (a."blocks per SM" is not null)::integer + (a."warps per SM" is not null)::integer
    + (a."est. achieved occupancy %" is not null)::integer + (a.bytes is not null)::integer
    + (a."memory bandwidth (GB/s)" is not null)::integer + (a.kind is not null)::integer as claimed
from parsed_event
