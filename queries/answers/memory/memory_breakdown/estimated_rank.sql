-- Ranks without recorded allocations, but with shapes or a model table, so that memory can be estimated.
--
-- :takes rank
-- :reads memory_event, estimated_memory, model_state, gpu_op
-- :column rank RANK
-- :column device_type VARCHAR  cuda, or cpu in a trace without a GPU
-- :column device DEVICE        of the device with the most events; -1 for the CPU
with estimable_rank as (
    select rank from estimated_memory
    union
    select rank from model_state
),

used_device as (
    select
        rank,
        device,
        count(*) as event_count
    from gpu_op
    where device is not null
    group by rank, device
),

busiest_device as (
    select
        rank,
        arg_min(device, (-event_count, device)) as device
    from used_device
    group by rank
)

select
    estimable_rank.rank,
    if(busiest_device.rank is null, 'cpu', 'cuda') as device_type,
    coalesce(busiest_device.device, -1) as device
from estimable_rank
left join busiest_device on estimable_rank.rank = busiest_device.rank
where is_asked($rank, estimable_rank.rank) and estimable_rank.rank not in (select rank from memory_event)
