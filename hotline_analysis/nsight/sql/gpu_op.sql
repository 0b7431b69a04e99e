-- Attributes of GPU work other than time.
select
    event_id,
    device,
    context,
    stream,
    null::bigint as queued,
    grid,
    block,
    registers_per_thread,
    shared_memory_bytes,
    blocks_per_sm,
    warps_per_sm,
    null::double as occupancy_pct,
    bytes,
    1.0 * bytes / nullif(dur_ns, 0) as bandwidth_gb_per_s,
    null::varchar as kind
from batch
