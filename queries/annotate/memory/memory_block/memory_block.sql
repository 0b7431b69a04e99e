-- Every block of memory that the trace tells of: how long it lives, where it was allocated and released, what it is.
--
-- What a block is follows from both of its ends; `evidence` names the rule, the first of these that applies:
--   released_in_zero_grad  gradient: released where gradients are set to none,
--   before_trace           unknown: older than the trace,
--   communicates           communication_buffer: allocated inside an op that communicates,
--   same_op                workspace: allocated and released inside the same matrix product, convolution, attention or
--                          recurrent layer,
--   copied_to_device       input: allocated by an op that copies from the host to a GPU, and outlives the op,
--   recomputed             activation: allocated in forward that is computed again, released in a later node,
--   forward_to_backward    activation: allocated in forward or loss, released in a node of autograd, or in backward
--                          after the first one: it was saved for backward,
--   held_past_backward     activation: as before, but released outside of autograd and before the next step is over: a
--                          result that the program still holds, which may be saved for backward too,
--   before_backward        temporary: allocated in forward or loss, and released before the first node that follows,
--   outlives_load_data     input: allocated where data is loaded,
--   same_node              temporary: allocated and released inside the same node of autograd,
--   between_nodes          gradient_map: allocated in backward, released there in another node; or allocated before
--                          the first one, and released in the same step,
--   outlives_backward      gradient: allocated in backward, alive when it is over,
--   outlives_optimizer     optimizer_state: allocated in the optimizer, alive when it is over,
--   same_phase             temporary: released before the phase that allocated it is over,
--   no_rule                unknown, like what outlives its phase in any other way (`outlives_…`).
--
-- :reads block, block_end, allocating_op, engine_call, phase_span, step
-- :column block_id BIGINT        the event that allocated it, or released it when it is older than the trace
-- :column device_type VARCHAR    cpu, cuda, hip, xpu, hpu, mtia or other
-- :column device BIGINT          device number; -1 for the CPU
-- :column address BIGINT         address
-- :column bytes BIGINT           size
-- :column allocated_id BIGINT    the event that allocated it; NULL when it is older than the trace
-- :column released_id BIGINT     the event that released it; NULL when the trace holds none
-- :column start_ns BIGINT        when it was allocated; NULL when it is older than the trace
-- :column end_ns BIGINT          when it was released, or its address was allocated again; NULL if neither
-- :column gone_id BIGINT         the event that did so; NULL without one
-- :column step BIGINT            training step that allocated it; NULL outside every step, and likewise what follows
-- :column phase PHASE            phase that allocated it
-- :column module_id BIGINT       the innermost module that did (see `model_op`)
-- :column pass VARCHAR           forward, backward or recompute
-- :column op_id BIGINT           the outermost op of a library that did, inside the node of autograd if there is one
-- :column node_id BIGINT         the call of the autograd engine that did
-- :column released_step BIGINT   training step that released it
-- :column released_phase PHASE   phase that released it
-- :column released_node_id BIGINT  the call of the autograd engine that released it
-- :column category VARCHAR       gradient, gradient_map, activation, optimizer_state, workspace, input, temporary,
--                                communication_buffer or unknown
-- :column evidence VARCHAR       the rule that told
with span_in_step as (
    select
        phase_span.phase,
        phase_span.end_ns,
        step.step
    from phase_span
    asof inner join step on phase_span.start_ns >= step.start_ns
),

-- The ends of the phases of each step, and of the last phase of all.
phase_end as (
    select
        step,
        phase,
        max(end_ns) as end_ns,
        max(max(end_ns)) over () as last_ns
    from span_in_step
    group by step, phase
),

-- The end of the step after each.
next_step as (
    select
        step,
        coalesce(lead(end_ns) over (order by start_ns), end_ns) as next_end_ns
    from step
),

-- With where it was allocated, and then where it was released. Both are kept, so that only one large join at a time
-- needs memory.
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

-- With the first node of autograd that starts after the allocation, and what outlives what.
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
            -- the gradient that backward begins with: the caller of the engine holds it until that returns
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
