-- One row per device: when most is allocated on it, the time that is asked for, and how much is allocated how long in
-- it.
--
-- Without allocations: when most is saved for backward, and the most that the estimate has together.
--
-- :takes rank, device, step
-- :reads memory_change, estimated_rank, estimated_part, estimated_memory
-- :column rank BIGINT            process rank
-- :column device_type VARCHAR    cpu, cuda, hip, xpu, hpu, mtia or other
-- :column device BIGINT          device number; -1 for the CPU
-- :column peak_bytes BIGINT      allocated on the device at most
-- :column peak_id BIGINT         the allocation that reached it first
-- :column peak_ns BIGINT         when it was reached first
-- :column peak_step BIGINT       training step then; NULL outside every step
-- :column from_ns BIGINT         the first allocation or release
-- :column from_id BIGINT         the event
-- :column until_ns BIGINT        the last one
-- :column byte_ns HUGEINT        bytes allocated between them, times how long
-- :column is_estimated BOOLEAN   by shapes
with asked_memory as (
    select
        *,
        lead(start_ns) over (partition by rank, device_type, device order by start_ns, event_id) as next_ns
    from memory_change
    where bytes != 0 and is_asked($rank, rank) and is_asked($device, device) and is_asked($step, step)
),

-- Tensors that are saved, when they begin and end.
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

saved_at_most as (
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

always_held as (
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
    coalesce(saved_at_most.bytes, 0) + coalesce(always_held.bytes, 0),
    saved_at_most.peak_id,
    saved_at_most.peak_ns,
    saved_at_most.peak_step,
    saved_at_most.from_ns,
    saved_at_most.from_id,
    saved_at_most.until_ns,
    coalesce(saved_at_most.byte_ns, 0)
    + coalesce(always_held.bytes, 0)::hugeint * coalesce(saved_at_most.until_ns - saved_at_most.from_ns, 0),
    true
from estimated_rank
left join saved_at_most on estimated_rank.rank = saved_at_most.rank
left join always_held on estimated_rank.rank = always_held.rank
where
    is_asked($device, estimated_rank.device)
    and ($step is null or saved_at_most.rank is not null)
