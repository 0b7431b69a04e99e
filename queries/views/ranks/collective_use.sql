-- Purpose of each collective: gradients, parameters, activations, an exchange, or the next stage of a pipeline.
--
-- The purpose follows from the kind of collective, the description of its process group (names by PyTorch, Megatron and
-- device meshes), and the phase of the call:
--   exchange     all-to-all, for experts and sharded embeddings, or a group of experts. NCCL implements all-to-all by
--                sends and receives; sends and receives without a call in the file are an exchange if the rank has
--                other exchanges
--   stages       other sends and receives
--   activations  a group of tensor, sequence or context parallelism; or an all-reduce or reduce-scatter of a group with
--                such a call in forward (before any gradients exist)
--   gradients    other all-reduces and reduce-scatters from backward on, if the trace has a backward
--   parameters   all-gathers of a group that also reduces gradients, as in FSDP and ZeRO
--   other        all others, such as broadcasts and barriers
--
-- :reads collective_call, collective, launch, phase_span
-- :column rank RANK
-- :column event_id BIGINT the kernel or span
-- :column name VARCHAR    allreduce, allgather, …; NULL if unknown
-- :column step STEP       NULL outside every step
-- :column phase PHASE     of the launch; NULL if unknown
-- :column use VARCHAR     gradients, parameters, activations, exchange, stages or other

-- one row per collective, with the description of its group
with described_call as (
    select
        collective_call.*,
        lower(coalesce(own.group_description, called.group_description, '')) as description,
        coalesce(collective_call.group_name, '') as lane,
        collective_call.name in ('allreduce', 'reducescatter') as reduces
    from collective_call
    left join launch on collective_call.rank = launch.rank and collective_call.event_id = launch.event_id
    left join collective as own on collective_call.rank = own.rank and collective_call.event_id = own.event_id
    left join collective as called on launch.rank = called.rank and launch.op_id = called.event_id
),

-- One row per collective, with the other collectives of its group.
call_in_group as (
    select
        *,
        coalesce(bool_or(reduces and phase in ('forward', 'loss')) over of_group, false) as reduces_in_forward,
        coalesce(bool_or(reduces and phase in ('backward', 'optimizer')) over of_group, false) as reduces_gradients,
        bool_or(coalesce(name = 'alltoall', false)) over (partition by rank) as has_exchange,
        rank in (select rank from phase_span where phase = 'backward') as has_backward
    from described_call
    window of_group as (partition by rank, lane)
)

select
    rank,
    event_id,
    name,
    step,
    phase,
    case
        when name = 'alltoall' or is_expert_group(description) then 'exchange'
        when name = 'sendrecv' and has_exchange then 'exchange'
        when name in ('send', 'recv', 'sendrecv') then 'stages'
        when
            is_tensor_group(description)
            or (reduces and reduces_in_forward)
            then 'activations'
        when reduces and has_backward and coalesce(phase, 'other') not in ('forward', 'loss', 'load_data')
            then 'gradients'
        when name = 'allgather' and reduces_gradients then 'parameters'
        else 'other'
    end as use
from call_in_group
