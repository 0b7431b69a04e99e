-- Ranks whose trace has no allocations, but shapes or a table of the model: what can be estimated of them.
--
-- :takes rank
-- :reads memory_event, estimated_memory, model_state, gpu_op
-- :column rank BIGINT          process rank
-- :column device_type VARCHAR  cuda, or cpu in a trace without a GPU
-- :column device BIGINT        the device with most events; -1 for the CPU
with told_rank as (
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
    told_rank.rank,
    if(busiest_device.rank is null, 'cpu', 'cuda') as device_type,
    coalesce(busiest_device.device, -1) as device
from told_rank
left join busiest_device on told_rank.rank = busiest_device.rank
where is_asked($rank, told_rank.rank) and told_rank.rank not in (select rank from memory_event)
