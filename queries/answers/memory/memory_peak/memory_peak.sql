-- What is allocated when most is allocated: by category, and by the phase and module that allocated it.
--
-- An allocation lives until the next release of its address on its device. What the trace can tell of a block follows
-- from where it was allocated and where it was released; `evidence` names the rule, in this order:
--
-- `released_in_zero_grad`: gradient. `before_trace`: allocated before the trace began, unknown. `recomputed` and
-- `forward_to_backward`: activation, allocated in forward or loss (or forward recomputed) and released in backward.
-- `same_phase`: temporary, released before the phase that allocated it was over. `outlives_backward`: gradient,
-- allocated in backward. `outlives_optimizer`: optimizer_state. `outlives_load_data`: input. Other `outlives_…`, and
-- `no_rule`: unknown. Parameters are older than the trace. Where the table of a captured model says how large they are
-- (`model_op.param_bytes`), the trace has one GPU, and at least so much of its memory is older than the trace and not
-- released in it, that much is `parameter` (`model_table`). The rows of a device add up to `peak_bytes`; where more
-- blocks are alive than the allocator says, a negative row `inconsistent` makes up for it.
--
-- :param rank BIGINT = NULL         only this rank
-- :param device BIGINT = NULL       only this device; -1 is the CPU
-- :param step BIGINT = NULL         when most is allocated in this step
-- :param phase PHASE = NULL
--                                   only what was allocated in this phase
-- :param module VARCHAR = NULL      only what was allocated in this module or one in it, by path
-- :reads peak_moment, block_evidence, memory_change, model_op, rank_info
-- :column rank BIGINT               process rank
-- :column device_type VARCHAR       cpu, cuda, hip, xpu, hpu, mtia or other
-- :column device BIGINT             device number; -1 for the CPU
-- :column category VARCHAR          parameter, activation, gradient, optimizer_state, input, temporary or unknown
-- :column evidence VARCHAR          the rule that told
-- :column phase VARCHAR             phase that allocated; NULL when unknown
-- :column module_path VARCHAR       module that allocated; NULL when unknown
-- :column bytes BIGINT              bytes alive at the peak
-- :column bytes_pct DOUBLE          share of the peak
-- :column block_count BIGINT        blocks; NULL when unknown
-- :column largest_bytes BIGINT      the largest block; NULL when unknown
-- :column largest_id BIGINT         the event that allocated it, or released it when it is older than the trace
-- :column peak_bytes BIGINT         allocated on the device at the peak
-- :column reserved_bytes BIGINT     reserved by the allocator then; NULL when unknown
-- :column peak_start_ns BIGINT      when the peak was reached first
-- :column peak_id BIGINT            the allocation that reached it
-- :column peak_step BIGINT          training step then; NULL outside every step
with block_group as (
    select
        block_evidence.rank,
        block_evidence.device_type,
        block_evidence.device,
        block_evidence.evidence,
        block_evidence.phase,
        model_op.path as module_path,
        sum(block_evidence.bytes)::bigint as bytes,
        count(*) as block_count,
        max(block_evidence.bytes) as largest_bytes,
        arg_max(block_evidence.named_id, (block_evidence.bytes, -block_evidence.named_id)) as largest_id
    from block_evidence
    left join model_op on block_evidence.rank = model_op.rank and block_evidence.module_id = model_op.module_id
    group by
        block_evidence.rank, block_evidence.device_type, block_evidence.device, block_evidence.evidence,
        block_evidence.phase, model_op.path
),

-- What the allocator counts beyond the blocks: it is older than the trace, or less than nothing.
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

-- The model's table: of the modules that were placed, else as the capture stored it in the trace.
stored_module as (
    select
        rank,
        unnest(
            json_transform(
                metadata, '{"hotline_model": {"modules": [{"parent_id": "BIGINT", "param_bytes": "BIGINT"}]}}'
            )
            .hotline_model.modules
        ) as module
    from rank_info
    where rank not in (select rank from model_op where param_bytes is not null)
),

-- Parameters of the whole model.
root_module as (
    select
        rank,
        path as module_path,
        param_bytes as bytes
    from model_op
    where parent_id is null and param_bytes > 0
    union all
    select
        rank,
        null,
        module.param_bytes
    from stored_module
    where module.parent_id is null and module.param_bytes > 0
),

-- Parameters of the model, if they can only be on this device and fit into its older memory.
parameter as (
    select
        older_memory.rank,
        older_memory.device_type,
        older_memory.device,
        root_module.module_path,
        root_module.bytes
    from older_memory
    inner join root_module on older_memory.rank = root_module.rank
    where
        older_memory.device_type != 'cpu'
        and older_memory.rank in (select rank from gpu group by rank having count(*) = 1)
    qualify sum(root_module.bytes) over (partition by older_memory.rank) <= older_memory.bytes
),

-- Older memory that is no parameters.
unexplained as (
    select
        older_memory.rank,
        older_memory.device_type,
        older_memory.device,
        older_memory.bytes - coalesce(sum(parameter.bytes), 0)::bigint as bytes
    from older_memory
    left join parameter
        on
            (older_memory.rank, older_memory.device_type, older_memory.device)
            = (parameter.rank, parameter.device_type, parameter.device)
    group by older_memory.rank, older_memory.device_type, older_memory.device, older_memory.bytes
),

-- Groups of blocks, and the rest of each device as groups.
any_group as (
    select * from block_group
    union all by name
    select
        rank,
        device_type,
        device,
        'model_table' as evidence,
        null as phase,
        module_path,
        bytes,
        null as block_count,
        null as largest_bytes,
        null as largest_id
    from parameter
    union all by name
    select
        rank,
        device_type,
        device,
        case when bytes > 0 then 'before_trace' else 'inconsistent' end as evidence,
        null as phase,
        null as module_path,
        bytes,
        null as block_count,
        null as largest_bytes,
        null as largest_id
    from unexplained
    where bytes != 0
),

memory_group as (
    select
        rank,
        device_type,
        device,
        evidence,
        phase,
        module_path,
        sum(bytes)::bigint as bytes,
        case when count(*) = count(block_count) then sum(block_count)::bigint end as block_count,
        max(largest_bytes) as largest_bytes,
        arg_max(largest_id, largest_bytes) as largest_id
    from any_group
    group by rank, device_type, device, evidence, phase, module_path
)

select
    memory_group.rank,
    memory_group.device_type,
    memory_group.device,
    case
        when memory_group.evidence in ('released_in_zero_grad', 'outlives_backward') then 'gradient'
        when memory_group.evidence in ('recomputed', 'forward_to_backward') then 'activation'
        when memory_group.evidence = 'same_phase' then 'temporary'
        when memory_group.evidence = 'outlives_optimizer' then 'optimizer_state'
        when memory_group.evidence = 'outlives_load_data' then 'input'
        when memory_group.evidence = 'model_table' then 'parameter'
        else 'unknown'
    end as category,
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
    and (
        $module is null
        or memory_group.module_path = $module
        or starts_with(memory_group.module_path, $module || '.')
    )
order by
    memory_group.rank, memory_group.device_type = 'cpu', memory_group.device_type, memory_group.device,
    memory_group.bytes desc, memory_group.evidence, memory_group.phase nulls last, memory_group.module_path nulls last
