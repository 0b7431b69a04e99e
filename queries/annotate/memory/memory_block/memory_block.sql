-- Blocks of memory in the trace, with lifetime, labels of allocation and release, and category.
--
-- The category follows from both ends of the block. `evidence` is the first matching rule:
--   released_in_zero_grad  gradient: released while gradients are set to none,
--   before_trace           unknown: older than the trace,
--   communicates           communication_buffer: allocated inside an op that communicates,
--   same_op                workspace: allocated and released inside the same matrix product, convolution, attention or
--                          recurrent layer,
--   copied_to_device       input: allocated by an op that copies from the host to a GPU, and outlives the op,
--   recomputed             activation: allocated in recomputed forward, released in a later node,
--   forward_to_backward    activation: allocated in forward or loss, released in an autograd node, or in backward after
--                          the first node: it was saved for backward,
--   held_past_backward     activation: as before, but released outside of autograd and before the end of the next step:
--                          a result still held by the program, and possibly saved for backward,
--   before_backward        temporary: allocated in forward or loss, and released before the next node,
--   outlives_load_data     input: allocated while loading data,
--   same_node              temporary: allocated and released inside the same autograd node,
--   between_nodes          gradient_map: allocated in backward, released there in another node; or allocated before the
--                          first node, and released in the same step,
--   outlives_backward      gradient: allocated in backward, alive at the end of backward,
--   outlives_optimizer     optimizer_state: allocated in the optimizer, alive at the end of the optimizer,
--   same_phase             temporary: released before the end of the allocating phase,
--   no_rule                unknown, as are blocks that outlive any other phase (`outlives_…`).
--
-- :reads block, block_end, allocating_op, engine_call, phase_span, step
-- :column block_id BIGINT        the allocating event, or the releasing event for blocks older than the trace
-- :column device_type VARCHAR    cpu, cuda, hip, xpu, hpu, mtia or other
-- :column device DEVICE          -1 for the CPU
-- :column address BIGINT         address
-- :column bytes BIGINT           size
-- :column allocated_id BIGINT    the allocating event; NULL for blocks older than the trace
-- :column released_id BIGINT     the releasing event; NULL if not in the trace
-- :column start_ns BIGINT        time of the allocation; NULL for blocks older than the trace
-- :column end_ns BIGINT          time of the release, or of the next allocation of the address; NULL without either
-- :column gone_id BIGINT         event of the release or next allocation; NULL if absent
-- :column step STEP              of the allocation; NULL outside every step, as are the following columns
-- :column phase PHASE            of the allocation
-- :column module_id BIGINT       the innermost module of the allocation (see `model_op`)
-- :column pass VARCHAR           forward, backward or recompute
-- :column op_id BIGINT           the outermost library op of the allocation; inside an autograd node, the outermost op
--                                in the node
-- :column node_id BIGINT         the engine call of the allocation
-- :column released_step BIGINT   training step of the release
-- :column released_phase PHASE   phase of the release
-- :column released_node_id BIGINT  the engine call of the release
-- :column category VARCHAR       gradient, gradient_map, activation, optimizer_state, workspace, input, temporary,
--                                communication_buffer or unknown
-- :column evidence VARCHAR       the matching rule
with span_in_step as (
    select
        phase_span.phase,
        phase_span.end_ns,
        step.step
    from phase_span
    asof inner join step on phase_span.start_ns >= step.start_ns
),

-- End of each phase of each step, and of the last phase of all.
phase_end as (
    select
        step,
        phase,
        max(end_ns) as end_ns,
        max(max(end_ns)) over () as last_ns
    from span_in_step
    group by step, phase
),

-- Steps with the end of the next step.
next_step as (
    select
        step,
        coalesce(lead(end_ns) over (order by start_ns), end_ns) as next_end_ns
    from step
),

-- Blocks with the labels of the allocation, then of the release. Both are materialized: only one large join at a time
-- then needs memory.
made_block as materialized (
    select
        block.*,
        made.step,
        made.phase,
        made.module_id,
        made.pass,
        made.op_id,
        made.node_id
    from block
    left join block_end as made on block.block_id = made.block_id and not made.is_release
),

placed_block as materialized (
    select
        made_block.*,
        gone.step as released_step,
        gone.phase as released_phase,
        gone.node_id as released_node_id,
        coalesce(made_block.op_id = gone.op_id, false) as same_op,
        coalesce(made_block.node_id = gone.node_id, false) as same_node
    from made_block
    left join block_end as gone on made_block.block_id = gone.block_id and gone.is_release
),

-- Blocks with the first autograd node after the allocation, and whether each block outlives its phase.
timed_block as (
    select
        placed_block.*,
        engine_call.start_ns as first_node_ns,
        next_step.next_end_ns,
        coalesce(allocating_op.is_matrix_op, false) as is_matrix_op,
        coalesce(allocating_op.communicates, false) as communicates,
        coalesce(allocating_op.copies_in and not placed_block.same_op, false) as is_copied_in,
        case
            when placed_block.gone_ns is not null then placed_block.gone_ns > phase_end.end_ns
            when phase_end.last_ns > phase_end.end_ns then true
        end as outlives
    from placed_block
    asof left join engine_call on placed_block.allocated_ns <= engine_call.start_ns
    left join phase_end on placed_block.step = phase_end.step and placed_block.phase = phase_end.phase
    left join next_step on placed_block.step = next_step.step
    left join allocating_op on placed_block.op_id = allocating_op.event_id
),

judged_block as (
    select
        *,
        phase in ('forward', 'loss') and (pass is null or pass != 'recompute') as is_forward,
        case
            when first_node_ns is null then gone_ns is not null and released_phase = 'backward'
            else gone_ns is null or gone_ns >= first_node_ns
        end as meets_backward,
        case
            when released_phase = 'zero_grad' then 'released_in_zero_grad'
            when allocated_id is null then 'before_trace'
            when communicates then 'communicates'
            when same_op and is_matrix_op then 'same_op'
            when is_copied_in then 'copied_to_device'
            when pass = 'recompute' and not same_node and released_node_id is not null and meets_backward
                then 'recomputed'
            when pass = 'recompute' and same_op then 'same_phase'
            when
                is_forward and meets_backward
                and (released_node_id is not null or (released_phase = 'backward' and released_step = step))
                then 'forward_to_backward'
            when is_forward and meets_backward and gone_ns < next_end_ns then 'held_past_backward'
            when is_forward and gone_ns is not null and not meets_backward and first_node_ns is not null
                then 'before_backward'
            when phase = 'backward' and same_node then 'same_node'
            when phase = 'backward' and not outlives and (node_id is not null or released_node_id is not null)
                then 'between_nodes'
            -- The first gradient of backward: the engine's caller holds it until the engine returns.
            when phase = 'backward' and node_id is null and meets_backward and released_step = step then 'between_nodes'
            when not outlives then 'same_phase'
            when outlives and phase is not null then 'outlives_' || phase
            else 'no_rule'
        end as evidence
    from timed_block
)

select
    block_id,
    device_kind(device_type) as device_type,
    device,
    address,
    bytes,
    allocated_id,
    released_id,
    allocated_ns as start_ns,
    gone_ns as end_ns,
    gone_id,
    step,
    phase,
    module_id,
    pass,
    op_id,
    node_id,
    released_step,
    released_phase,
    released_node_id,
    case
        when evidence in ('released_in_zero_grad', 'outlives_backward') then 'gradient'
        when evidence = 'communicates' then 'communication_buffer'
        when evidence = 'same_op' then 'workspace'
        when evidence in ('recomputed', 'forward_to_backward', 'held_past_backward') then 'activation'
        when evidence in ('copied_to_device', 'outlives_load_data') then 'input'
        when evidence in ('before_backward', 'same_node', 'same_phase') then 'temporary'
        when evidence = 'between_nodes' then 'gradient_map'
        when evidence = 'outlives_optimizer' then 'optimizer_state'
        else 'unknown'
    end as category,
    evidence
from judged_block
order by block_id
