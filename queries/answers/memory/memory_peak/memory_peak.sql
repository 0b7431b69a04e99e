-- Memory at the allocation peak: by category, and by the phase and module that allocated it.
--
-- The category of a block follows from the places of its allocation and release. `memory_block` has the rules, and
-- `evidence` names the rule applied. Parameters and optimizer state are often older than the trace. Their sizes come
-- from the table of a captured model (`model_state`), if the trace has one GPU and enough memory older than the trace
-- that is never released: `parameter` (`model_table`) and `optimizer_state` (`optimizer_class`). The remaining older
-- memory is `held_throughout`.
--
-- The rows of a device add up to `peak_bytes`. If more blocks are alive than the allocator reports, a negative row
-- `inconsistent` balances the sum. `memory_breakdown` has more detail.
--
-- :param rank BIGINT = NULL         only this rank
-- :param device BIGINT = NULL       only this device; -1 is the CPU
-- :param step BIGINT = NULL         peak within this step
-- :param phase PHASE = NULL         only memory allocated in this phase
-- :param module VARCHAR = NULL      only memory allocated in this module or its submodules, by path
-- :reads peak_moment, peak_block, memory_block, memory_change, model_op, model_state
-- :column rank RANK
-- :column device_type VARCHAR       cpu, cuda, hip, xpu, hpu, mtia or other
-- :column device DEVICE             -1 for the CPU
-- :column category VARCHAR          parameter, gradient, gradient_map, activation, optimizer_state, workspace, input,
--                                   temporary, communication_buffer or unknown
-- :column evidence VARCHAR          rule used for the category
-- :column phase PHASE               of the allocation; NULL if unknown
-- :column module_path VARCHAR       module of the allocation; NULL if unknown
-- :column bytes BIGINT              bytes alive at the peak
-- :column bytes_pct DOUBLE          share of the peak
-- :column block_count BIGINT        number of blocks; NULL if unknown
-- :column largest_bytes BIGINT      size of the largest block; NULL if unknown
-- :column largest_id BIGINT         event of the allocation of the largest block, or of the release for a block older
--                                   than the trace
-- :column peak_bytes BIGINT         bytes allocated on the device at the peak
-- :column reserved_bytes BIGINT     bytes reserved by the allocator at the peak; NULL if unknown
-- :column peak_start_ns BIGINT      time at which the peak was first reached
-- :column peak_id BIGINT            first allocation at the peak
-- :column peak_step BIGINT          training step at the peak; NULL outside every step

-- one row per category, evidence, phase and module: the blocks at the peak
with block_group as (
    select
        peak_block.rank,
        peak_block.device_type,
        peak_block.device,
        peak_block.category,
        peak_block.evidence,
        peak_block.phase,
        model_op.path as module_path,
        sum(peak_block.bytes)::bigint as bytes,
        count(*) as block_count,
        max(peak_block.bytes) as largest_bytes,
        arg_max(peak_block.block_id, (peak_block.bytes, -peak_block.block_id)) as largest_id
    from peak_block
    left join model_op on peak_block.rank = model_op.rank and peak_block.module_id = model_op.module_id
    group by
        peak_block.rank, peak_block.device_type, peak_block.device, peak_block.category,
        peak_block.evidence, peak_block.phase, model_op.path
),

-- Allocated bytes beyond the known blocks: older than the trace (or negative).
older_memory as (
    select
        peak_moment.rank,
        peak_moment.device_type,
        peak_moment.device,
        peak_moment.peak_bytes - coalesce(sum(block_group.bytes), 0)::bigint as bytes
    from peak_moment
    left join block_group
        on
            (peak_moment.rank, peak_moment.device_type, peak_moment.device)
            = (block_group.rank, block_group.device_type, block_group.device)
    group by peak_moment.rank, peak_moment.device_type, peak_moment.device, peak_moment.peak_bytes
),

gpu as (
    select distinct
        rank,
        device_type,
        device
    from memory_change
    where device_type != 'cpu'
),

-- Parameters and optimizer state restricted to this device and fitting into its older memory.
model_part as (
    select
        older_memory.rank,
        older_memory.device_type,
        older_memory.device,
        model_state.category,
        model_state.module_path,
        model_state.bytes
    from older_memory
    inner join model_state on older_memory.rank = model_state.rank
    where
        older_memory.device_type != 'cpu'
        and older_memory.rank in (select rank from gpu group by rank having count(*) = 1)
        and (
            model_state.category = 'parameter'
            or older_memory.rank not in (select rank from memory_block where category = 'optimizer_state')
        )
    qualify
        sum(model_state.bytes) over (
            partition by older_memory.rank order by model_state.category desc
            range between unbounded preceding and current row
        ) <= older_memory.bytes
),

-- Older memory that is neither a parameter nor optimizer state.
unexplained_memory as (
    select
        older_memory.rank,
        older_memory.device_type,
        older_memory.device,
        older_memory.bytes - coalesce(sum(model_part.bytes), 0)::bigint as bytes
    from older_memory
    left join model_part
        on
            (older_memory.rank, older_memory.device_type, older_memory.device)
            = (model_part.rank, model_part.device_type, model_part.device)
    group by older_memory.rank, older_memory.device_type, older_memory.device, older_memory.bytes
),

-- Groups of blocks, and the remaining memory of each device as groups.
any_group as (
    select * from block_group
    union all by name
    select
        rank,
        device_type,
        device,
        category,
        if(category = 'parameter', 'model_table', 'optimizer_class') as evidence,
        null as phase,
        module_path,
        bytes,
        null as block_count,
        null as largest_bytes,
        null as largest_id
    from model_part
    union all by name
    select
        rank,
        device_type,
        device,
        'unknown' as category,
        case when bytes > 0 then 'held_throughout' else 'inconsistent' end as evidence,
        null as phase,
        null as module_path,
        bytes,
        null as block_count,
        null as largest_bytes,
        null as largest_id
    from unexplained_memory
    where bytes != 0
),

-- one row per category, evidence, phase and module, including older memory
memory_group as (
    select
        rank,
        device_type,
        device,
        category,
        evidence,
        phase,
        module_path,
        sum(bytes)::bigint as bytes,
        case when count(*) = count(block_count) then sum(block_count)::bigint end as block_count,
        max(largest_bytes) as largest_bytes,
        arg_max(largest_id, largest_bytes) as largest_id
    from any_group
    group by rank, device_type, device, category, evidence, phase, module_path
)

select
    memory_group.rank,
    memory_group.device_type,
    memory_group.device,
    memory_group.category,
    memory_group.evidence,
    memory_group.phase,
    memory_group.module_path,
    memory_group.bytes,
    100.0 * memory_group.bytes / nullif(peak_moment.peak_bytes, 0) as bytes_pct,
    memory_group.block_count,
    memory_group.largest_bytes,
    memory_group.largest_id,
    peak_moment.peak_bytes,
    peak_moment.reserved_bytes,
    peak_moment.peak_ns as peak_start_ns,
    peak_moment.peak_id,
    peak_moment.peak_step
from memory_group
inner join peak_moment
    on
        (memory_group.rank, memory_group.device_type, memory_group.device)
        = (peak_moment.rank, peak_moment.device_type, peak_moment.device)
where
    ($phase is null or memory_group.phase = $phase)
    and in_module(memory_group.module_path, $module)
order by
    memory_group.rank, memory_group.device_type = 'cpu', memory_group.device_type, memory_group.device,
    memory_group.bytes desc, memory_group.evidence, memory_group.phase nulls last, memory_group.module_path nulls last
