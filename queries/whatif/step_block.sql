-- Blocks of memory alive in some steps, on the device with the most memory, and whether they grow with the batch.
--
-- Growing blocks are activations, gradient maps, inputs, and temporary memory of data loading, forward, loss and
-- backward, if the block has at least one byte per sample. A workspace grows only if it is a copy of an argument with
-- the batch dimension. Gradients of parameters, optimizer state and memory older than the trace keep their size.
--
-- :param rank BIGINT        the process rank
-- :param start_ns BIGINT    start of the first step on the CPU
-- :param end_ns BIGINT      end of the last step on the CPU
-- :param samples BIGINT     samples per step
-- :reads memory_block, memory_change, op
-- :column block_id BIGINT   the block
-- :column bytes BIGINT      size of the block
-- :column start_ns BIGINT   start of the block; the start of the first step for older blocks
-- :column start_id BIGINT   event at the start; -1 for older blocks
-- :column end_ns BIGINT     release of the block; NULL if later
-- :column end_id BIGINT     event of the release; NULL if later
-- :column category VARCHAR  as in `memory_block`
-- :column grows BOOLEAN     the size is proportional to the number of samples
-- :column older_bytes BIGINT
--                           memory of the device outside all blocks
-- :column device_type VARCHAR
--                           kind of the device
-- :column device DEVICE
with chosen_device as (
    select
        device_type,
        device,
        -- allocated bytes beyond the known blocks, at the allocator's maximum
        arg_max(allocated_bytes, (allocated_bytes, -start_ns, -event_id)) as peak_bytes,
        arg_max(start_ns, (allocated_bytes, -start_ns, -event_id)) as peak_ns,
        arg_max(event_id, (allocated_bytes, -start_ns, -event_id)) as peak_id
    from memory_change
    where rank = $rank and start_ns >= $start_ns and start_ns < $end_ns
    group by device_type, device
    -- prefer a GPU
    order by device_type = 'cpu', peak_bytes desc, device
    limit 1
),

block_in_steps as (
    select
        memory_block.*,
        chosen_device.peak_bytes,
        (
            memory_block.start_ns is null
            or (memory_block.start_ns, memory_block.allocated_id) <= (chosen_device.peak_ns, chosen_device.peak_id)
        )
        and (
            memory_block.end_ns is null
            or (memory_block.end_ns, memory_block.gone_id) > (chosen_device.peak_ns, chosen_device.peak_id)
        ) as at_peak
    from memory_block
    inner join chosen_device
        on memory_block.device_type = chosen_device.device_type and memory_block.device = chosen_device.device
    where
        memory_block.rank = $rank
        and (memory_block.start_ns is null or memory_block.start_ns < $end_ns)
        and (memory_block.end_ns is null or memory_block.end_ns > $start_ns)
),

-- Workspaces with as many elements as an argument of their op with the batch as first dimension: copies of this
-- argument in another layout.
workspace_argument as (
    select
        block_in_steps.block_id,
        block_in_steps.bytes,
        unnest(try_cast(json_extract(op.input_dims, '$[*]') as bigint[][])) as sizes
    from block_in_steps
    inner join op on block_in_steps.op_id = op.event_id and op.rank = $rank
    where block_in_steps.category = 'workspace'
),

batch_copy as (
    select distinct block_id
    from workspace_argument
    where sizes[1] = $samples and bytes / list_product(sizes) in (1, 2, 4, 8)
)

select
    block_in_steps.block_id,
    block_in_steps.bytes,
    greatest(coalesce(block_in_steps.start_ns, $start_ns), $start_ns) as start_ns,
    case when block_in_steps.start_ns >= $start_ns then block_in_steps.allocated_id else -1 end as start_id,
    case when block_in_steps.end_ns < $end_ns then block_in_steps.end_ns end as end_ns,
    case when block_in_steps.end_ns < $end_ns then block_in_steps.gone_id end as end_id,
    block_in_steps.category,
    block_in_steps.category not in ('gradient', 'optimizer_state', 'parameter', 'communication_buffer', 'unknown')
    and coalesce(block_in_steps.phase, 'other') in ('load_data', 'forward', 'loss', 'backward')
    and block_in_steps.bytes >= $samples
    and (block_in_steps.category != 'workspace' or batch_copy.block_id is not null) as grows,
    (
        block_in_steps.peak_bytes
        - coalesce(sum(block_in_steps.bytes) filter (where block_in_steps.at_peak) over (), 0)
    )::bigint as older_bytes,
    block_in_steps.device_type,
    block_in_steps.device
from block_in_steps
left join batch_copy on block_in_steps.block_id = batch_copy.block_id
order by block_in_steps.block_id
