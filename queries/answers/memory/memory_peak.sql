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
-- :reads memory_change, label_segment, phase_span, step, model_op, rank_info
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
with memory as (
    select * from memory_change
    where
        bytes != 0
        and ($rank is null or rank = $rank)
        and ($device is null or device = $device)
),

peak as (
    select
        rank,
        device_type,
        device,
        max(allocated_bytes) as peak_bytes,
        arg_max(event_id, (allocated_bytes, -start_ns, -event_id)) as peak_id,
        arg_max(start_ns, (allocated_bytes, -start_ns, -event_id)) as peak_ns,
        arg_max_null(reserved_bytes, (allocated_bytes, -start_ns, -event_id)) as reserved_bytes,
        arg_max_null(step, (allocated_bytes, -start_ns, -event_id)) as peak_step
    from memory
    where $step is null or step = $step
    group by rank, device_type, device
),

neighbour as (
    select
        *,
        lag(bytes) over of_address as bytes_before,
        lead(event_id) over of_address as next_id,
        lead(start_ns) over of_address as next_ns,
        lead(bytes) over of_address as next_bytes
    from memory
    window of_address as (partition by rank, device_type, device, address order by start_ns, event_id)
),

block as (
    select
        rank,
        device_type,
        device,
        bytes,
        event_id as allocated_id,
        start_ns as allocated_ns,
        case when next_bytes < 0 then next_id end as released_id,
        next_ns as gone_ns,
        next_id as gone_id
    from neighbour
    where bytes > 0
    union all
    select
        rank,
        device_type,
        device,
        -bytes,
        null,
        null,
        event_id as released_id,
        start_ns as gone_ns,
        event_id as gone_id
    from neighbour
    where bytes < 0 and bytes_before is null
),

alive as (
    select
        block.*,
        peak.peak_bytes
    from block
    inner join peak
        on (block.rank, block.device_type, block.device) = (peak.rank, peak.device_type, peak.device)
    where
        (block.allocated_ns is null or (block.allocated_ns, block.allocated_id) <= (peak.peak_ns, peak.peak_id))
        and (block.gone_ns is null or (block.gone_ns, block.gone_id) > (peak.peak_ns, peak.peak_id))
),

point as (
    select
        memory.rank,
        memory.event_id,
        memory.track_id,
        memory.start_ns
    from memory
    inner join (
        select
            rank,
            allocated_id as event_id
        from alive
        union
        select
            rank,
            released_id
        from alive
    ) as wanted on memory.rank = wanted.rank and memory.event_id = wanted.event_id
),

placed as (
    select
        point.rank,
        point.event_id,
        label_segment.step,
        label_segment.phase,
        label_segment.module_id,
        label_segment.pass
    from point
    asof left join label_segment
        on
            point.rank = label_segment.rank
            and point.track_id = label_segment.track_id
            and point.start_ns >= label_segment.start_ns
),

span_in_step as (
    select
        phase_span.rank,
        phase_span.phase,
        phase_span.end_ns,
        step.step
    from phase_span
    asof inner join step on phase_span.rank = step.rank and phase_span.start_ns >= step.start_ns
),

phase_end as (
    select
        rank,
        step,
        phase,
        max(end_ns) as end_ns,
        max(max(end_ns)) over (partition by rank) as last_ns
    from span_in_step
    group by rank, step, phase
),

judged as (
    select
        alive.*,
        made.phase,
        made.module_id,
        made.pass,
        made.step,
        gone.phase as gone_phase,
        gone.step as gone_step,
        case
            when alive.gone_ns is not null then alive.gone_ns > phase_end.end_ns
            when phase_end.last_ns > phase_end.end_ns then true
        end as outlives
    from alive
    left join placed as made on alive.rank = made.rank and alive.allocated_id = made.event_id
    left join placed as gone on alive.rank = gone.rank and alive.released_id = gone.event_id
    left join phase_end
        on made.rank = phase_end.rank and made.step = phase_end.step and made.phase = phase_end.phase
),

told as (
    select
        *,
        case
            when gone_phase = 'zero_grad' then 'released_in_zero_grad'
            when allocated_id is null then 'before_trace'
            when pass = 'recompute' and gone_phase = 'backward' and gone_step = step then 'recomputed'
            when phase in ('forward', 'loss') and gone_phase = 'backward' and gone_step = step
                then 'forward_to_backward'
            when not outlives then 'same_phase'
            when outlives and phase is not null then 'outlives_' || phase
            else 'no_rule'
        end as evidence
    from judged
),

known as (
    select
        told.rank,
        told.device_type,
        told.device,
        told.evidence,
        told.phase,
        model_op.path as module_path,
        sum(told.bytes)::bigint as bytes,
        count(*) as block_count,
        max(told.bytes) as largest_bytes,
        arg_max(
            coalesce(told.allocated_id, told.released_id),
            (told.bytes, -coalesce(told.allocated_id, told.released_id))
        ) as largest_id
    from told
    left join model_op on told.rank = model_op.rank and told.module_id = model_op.module_id
    group by told.rank, told.device_type, told.device, told.evidence, told.phase, model_op.path
),

rest as (
    select
        peak.rank,
        peak.device_type,
        peak.device,
        peak.peak_bytes - coalesce(sum(known.bytes), 0)::bigint as bytes
    from peak
    left join known
        on (peak.rank, peak.device_type, peak.device) = (known.rank, known.device_type, known.device)
    group by peak.rank, peak.device_type, peak.device, peak.peak_bytes
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
stored as (
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

root as (
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
    from stored
    where module.parent_id is null and module.param_bytes > 0
),

-- Its parameters, if they can only be on this device and fit into what is older.
parameter as (
    select
        rest.rank,
        rest.device_type,
        rest.device,
        root.module_path,
        root.bytes
    from rest
    inner join root on rest.rank = root.rank
    where rest.device_type != 'cpu' and rest.rank in (select rank from gpu group by rank having count(*) = 1)
    qualify sum(root.bytes) over (partition by rest.rank) <= rest.bytes
),

unexplained as (
    select
        rest.rank,
        rest.device_type,
        rest.device,
        rest.bytes - coalesce(sum(parameter.bytes), 0)::bigint as bytes
    from rest
    left join parameter
        on (rest.rank, rest.device_type, rest.device) = (parameter.rank, parameter.device_type, parameter.device)
    group by rest.rank, rest.device_type, rest.device, rest.bytes
),

complete as (
    select * from known
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

merged as (
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
    from complete
    group by rank, device_type, device, evidence, phase, module_path
)

select
    merged.rank,
    merged.device_type,
    merged.device,
    case
        when merged.evidence in ('released_in_zero_grad', 'outlives_backward') then 'gradient'
        when merged.evidence in ('recomputed', 'forward_to_backward') then 'activation'
        when merged.evidence = 'same_phase' then 'temporary'
        when merged.evidence = 'outlives_optimizer' then 'optimizer_state'
        when merged.evidence = 'outlives_load_data' then 'input'
        when merged.evidence = 'model_table' then 'parameter'
        else 'unknown'
    end as category,
    merged.evidence,
    merged.phase,
    merged.module_path,
    merged.bytes,
    100.0 * merged.bytes / nullif(peak.peak_bytes, 0) as bytes_pct,
    merged.block_count,
    merged.largest_bytes,
    merged.largest_id,
    peak.peak_bytes,
    peak.reserved_bytes,
    peak.peak_ns as peak_start_ns,
    peak.peak_id,
    peak.peak_step
from merged
inner join peak
    on (merged.rank, merged.device_type, merged.device) = (peak.rank, peak.device_type, peak.device)
where
    ($phase is null or merged.phase = $phase)
    and ($module is null or merged.module_path = $module or starts_with(merged.module_path, $module || '.'))
order by
    merged.rank, merged.device_type = 'cpu', merged.device_type, merged.device, merged.bytes desc, merged.evidence,
    merged.phase nulls last, merged.module_path nulls last
