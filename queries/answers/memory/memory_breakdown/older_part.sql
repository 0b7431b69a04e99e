-- The memory of `older_memory` by category: parameters, optimizer state, and the rest.
--
-- Parameters and optimizer state count only if they must be on this device and fit into the older memory. Optimizer
-- state with allocations in the trace is not counted again.
--
-- :takes by
-- :reads older_memory, model_state, asked_block, memory_change
-- :column rank RANK
-- :column device_type VARCHAR  cpu, cuda, hip, xpu, hpu, mtia or other
-- :column device DEVICE        -1 for the CPU
-- :column category VARCHAR     parameter, optimizer_state or unknown
-- :column evidence VARCHAR     model_table, optimizer_class, held_throughout or inconsistent
-- :column place VARCHAR        module or class; NULL if unknown
-- :column module_path VARCHAR  module; NULL if unknown
-- :column bytes BIGINT         bytes at the peak
-- :column byte_ns HUGEINT      bytes, times duration

-- one row per rank with a single GPU
with only_gpu as (
    select
        rank,
        any_value(device_type) as device_type,
        any_value(device) as device
    from (
        select distinct
            rank,
            device_type,
            device
        from memory_change
        where device_type != 'cpu'
    ) as gpu
    group by rank
    having count(*) = 1
),

-- State of the model, with the cumulative size of its own and all earlier categories.
fitting_state as (
    select
        older_memory.rank,
        older_memory.device_type,
        older_memory.device,
        model_state.* exclude (rank),
        older_memory.duration_ns,
        older_memory.bytes as older_bytes,
        sum(model_state.bytes) over (
            partition by model_state.rank order by model_state.category desc
            range between unbounded preceding and current row
        ) as together_bytes
    from older_memory
    inner join only_gpu
        on
            (older_memory.rank, older_memory.device_type, older_memory.device)
            = (only_gpu.rank, only_gpu.device_type, only_gpu.device)
    inner join model_state on older_memory.rank = model_state.rank
    where
        model_state.category = 'parameter'
        or older_memory.rank not in (select rank from asked_block where category = 'optimizer_state')
),

-- one row per parameter or optimizer state that fits into the older memory
known_part as (
    select
        rank,
        device_type,
        device,
        category,
        evidence,
        case $by when 'module' then module_path when 'type' then type end as place,
        module_path,
        bytes,
        bytes::hugeint * duration_ns as byte_ns
    from fitting_state
    where together_bytes <= older_bytes
)

select * from known_part
union all
select
    older_memory.rank,
    older_memory.device_type,
    older_memory.device,
    'unknown',
    case
        when older_memory.bytes - coalesce(sum(known_part.bytes), 0) < 0 then 'inconsistent' else 'held_throughout'
    end,
    null,
    null,
    older_memory.bytes - coalesce(sum(known_part.bytes), 0)::bigint,
    older_memory.byte_ns - coalesce(sum(known_part.byte_ns), 0)::hugeint
from older_memory
left join known_part
    on
        (older_memory.rank, older_memory.device_type, older_memory.device)
        = (known_part.rank, known_part.device_type, known_part.device)
group by
    older_memory.rank, older_memory.device_type, older_memory.device, older_memory.bytes, older_memory.byte_ns
having
    older_memory.bytes != coalesce(sum(known_part.bytes), 0)
    or older_memory.byte_ns != coalesce(sum(known_part.byte_ns), 0)
