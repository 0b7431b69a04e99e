-- One row per block of `peak_block`: where it was allocated, and which rule tells what it is.
--
-- :reads peak_block, asked_memory, label_segment, phase_span, step
-- :column rank BIGINT          process rank
-- :column device_type VARCHAR  cpu, cuda, hip, xpu, hpu, mtia or other
-- :column device BIGINT        device number; -1 for the CPU
-- :column bytes BIGINT         size of the block
-- :column named_id BIGINT      the event that allocated it, or released it when it is older than the trace
-- :column phase VARCHAR        phase that allocated it; NULL when unknown
-- :column module_id BIGINT     module that allocated it; NULL when unknown
-- :column evidence VARCHAR     the rule, as in `memory_peak`
with block_event as (
    -- events that allocated or released a block
    select
        asked_memory.rank,
        asked_memory.event_id,
        asked_memory.track_id,
        asked_memory.start_ns
    from asked_memory
    inner join (
        select
            rank,
            allocated_id as event_id
        from peak_block
        union
        select
            rank,
            released_id
        from peak_block
    ) as wanted on asked_memory.rank = wanted.rank and asked_memory.event_id = wanted.event_id
),

event_label as (
    select
        block_event.rank,
        block_event.event_id,
        label_segment.step,
        label_segment.phase,
        label_segment.module_id,
        label_segment.pass
    from block_event
    asof left join label_segment
        on
            block_event.rank = label_segment.rank
            and block_event.track_id = label_segment.track_id
            and block_event.start_ns >= label_segment.start_ns
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

-- The ends of the phases of each step, and of the last phase of all.
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

-- Blocks with the labels of both their events, and whether they outlive the phase that allocated them.
labelled_block as (
    select
        peak_block.*,
        made.phase,
        made.module_id,
        made.pass,
        made.step,
        gone.phase as gone_phase,
        gone.step as gone_step,
        case
            when peak_block.gone_ns is not null then peak_block.gone_ns > phase_end.end_ns
            when phase_end.last_ns > phase_end.end_ns then true
        end as outlives
    from peak_block
    left join event_label as made on peak_block.rank = made.rank and peak_block.allocated_id = made.event_id
    left join event_label as gone on peak_block.rank = gone.rank and peak_block.released_id = gone.event_id
    left join phase_end
        on made.rank = phase_end.rank and made.step = phase_end.step and made.phase = phase_end.phase
)

select
    rank,
    device_type,
    device,
    bytes,
    coalesce(allocated_id, released_id) as named_id,
    phase,
    module_id,
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
from labelled_block
