-- What each collective is for: gradients, parameters, activations, an exchange, or the next stage of a pipeline.
--
-- By its kind, the description of its process group (PyTorch's and Megatron's names, and those of device meshes), and
-- the phase that calls it:
--   exchange     all-to-all, as experts and sharded embeddings need it, or a group of experts; NCCL does it by sends
--                and receives, so those whose call is not in the file are it where the rank has others,
--   stages       other sends and receives,
--   activations  a group of tensor, sequence or context parallelism; an all-reduce or reduce-scatter of a group that
--                also has one in forward, where there are no gradients yet,
--   gradients    other all-reduces and reduce-scatters, from backward on, where the trace shows a backward,
--   parameters   all-gathers of a group that also reduces gradients, as FSDP's and ZeRO's,
--   other        all others, such as broadcasts and barriers.
--
-- :reads collective_call, collective, launch, phase_span
-- :column rank BIGINT     process rank
-- :column event_id BIGINT the kernel or span
-- :column name VARCHAR    allreduce, allgather, …; NULL when unknown
-- :column step BIGINT     number of the training step; NULL outside every step
-- :column phase VARCHAR   phase that launched it; NULL when unknown
-- :column use VARCHAR     gradients, parameters, activations, exchange, stages or other
with described as (
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

-- One row per collective, with what its group also does.
in_group as (
    select
        *,
        coalesce(bool_or(reduces and phase in ('forward', 'loss')) over of_group, false) as reduces_in_forward,
        coalesce(bool_or(reduces and phase in ('backward', 'optimizer')) over of_group, false) as reduces_gradients,
        bool_or(coalesce(name = 'alltoall', false)) over (partition by rank) as has_exchange,
        rank in (select rank from phase_span where phase = 'backward') as has_backward
    from described
    window of_group as (partition by rank, lane)
)

select
    rank,
    event_id,
    name,
    step,
    phase,
    case
        when name = 'alltoall' or regexp_matches(description, '(^|[^a-z])(ep|moe)([^a-z]|$)|expert') then 'exchange'
        when name = 'sendrecv' and has_exchange then 'exchange'
        when name in ('send', 'recv', 'sendrecv') then 'stages'
        when
            regexp_matches(description, '(^|[^a-z])(tp|sp|cp|tensor|sequence|context)([^a-z]|$)|tensor_model_parallel')
            or (reduces and reduces_in_forward)
            then 'activations'
        when reduces and has_backward and coalesce(phase, 'other') not in ('forward', 'loss', 'load_data')
            then 'gradients'
        when name = 'allgather' and reduces_gradients then 'parameters'
        else 'other'
    end as use
from in_group
