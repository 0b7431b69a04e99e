-- One row per device: its allocation peak, the selected time, and the allocated bytes times their duration.
--
-- Without recorded allocations: the peak of the bytes saved for backward, and the largest estimated total.
--
-- :takes rank, device, step
-- :reads memory_change, estimated_rank, estimated_part, estimated_memory
-- :column rank RANK
-- :column device_type VARCHAR    cpu, cuda, hip, xpu, hpu, mtia or other
-- :column device DEVICE          -1 for the CPU
-- :column peak_bytes BIGINT      most bytes allocated on the device
-- :column peak_id BIGINT         first allocation at the peak
-- :column peak_ns BIGINT         time at which the peak was first reached
-- :column peak_step BIGINT       training step at the peak; NULL outside every step
-- :column from_ns BIGINT         time of the first allocation or release
-- :column from_id BIGINT         first allocation or release
-- :column until_ns BIGINT        time of the last allocation or release
-- :column byte_ns HUGEINT        allocated bytes, times duration, between the first and the last event
-- :column is_estimated BOOLEAN   estimated from shapes
with asked_memory as (
    select
        *,
        lead(start_ns) over (partition by rank, device_type, device order by start_ns, event_id) as next_ns
    from memory_change
    where bytes != 0 and is_asked($rank, rank) and is_asked($device, device) and is_asked($step, step)
),

-- One row per start or end of the lifetime of a saved tensor.
estimated_change as (
    select
        rank,
        start_ns as at_ns,
        maker_id as at_id,
        step,
        bytes
    from estimated_memory
    where start_ns is not null and is_asked($step, step)
    union all
    select
        rank,
        end_ns,
        -1,
        step,
        -bytes
    from estimated_memory
    where start_ns is not null and is_asked($step, step)
),

estimated_level as (
    select
        *,
        sum(bytes) over (partition by rank order by at_ns, at_id) as saved_bytes,
        lead(at_ns) over (partition by rank order by at_ns, at_id) as next_ns
    from estimated_change
),

-- one row per rank: the peak of the saved bytes, and the first and last time
saved_peak as (
    select
        rank,
        max(saved_bytes)::bigint as bytes,
        arg_max(at_id, (saved_bytes, -at_ns, -at_id)) as peak_id,
        arg_max(at_ns, (saved_bytes, -at_ns, -at_id)) as peak_ns,
        arg_max_null(step, (saved_bytes, -at_ns, -at_id)) as peak_step,
        min(at_ns) as from_ns,
        arg_min(at_id, (at_ns, at_id)) as from_id,
        max(at_ns) as until_ns,
        sum(saved_bytes::hugeint * (next_ns - at_ns)) as byte_ns
    from estimated_level
    group by rank
),

constant_memory as (
    select
        rank,
        sum(bytes)::bigint as bytes
    from estimated_part
    group by rank
)

select
    rank,
    device_type,
    device,
    max(allocated_bytes) as peak_bytes,
    arg_max(event_id, (allocated_bytes, -start_ns, -event_id)) as peak_id,
    arg_max(start_ns, (allocated_bytes, -start_ns, -event_id)) as peak_ns,
    arg_max_null(step, (allocated_bytes, -start_ns, -event_id)) as peak_step,
    min(start_ns) as from_ns,
    arg_min(event_id, (start_ns, event_id)) as from_id,
    max(start_ns) as until_ns,
    coalesce(sum(allocated_bytes::hugeint * (next_ns - start_ns)), 0) as byte_ns,
    false as is_estimated
from asked_memory
group by rank, device_type, device
union all
select
    estimated_rank.rank,
    estimated_rank.device_type,
    estimated_rank.device,
    coalesce(saved_peak.bytes, 0) + coalesce(constant_memory.bytes, 0),
    saved_peak.peak_id,
    saved_peak.peak_ns,
    saved_peak.peak_step,
    saved_peak.from_ns,
    saved_peak.from_id,
    saved_peak.until_ns,
    coalesce(saved_peak.byte_ns, 0)
    + coalesce(constant_memory.bytes, 0)::hugeint * coalesce(saved_peak.until_ns - saved_peak.from_ns, 0),
    true
from estimated_rank
left join saved_peak on estimated_rank.rank = saved_peak.rank
left join constant_memory on estimated_rank.rank = constant_memory.rank
where
    is_asked($device, estimated_rank.device)
    and ($step is null or saved_peak.rank is not null)
