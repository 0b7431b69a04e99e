-- Collectives of a rank: kernels on the GPU, or spans of gloo or MPI on the CPU.
--
-- The description comes from the kernel's own arguments, else from the op around the launch, else from torch's
-- annotation around the call, else from NCCL's own range (`nccl_call`), else from the kernel's name. Names have one
-- spelling: allreduce, allgather, reducescatter, alltoall, broadcast, reduce, gather, scatter, barrier, send, recv.
--
-- :reads event, name_info, launch, nesting, collective, op, label, model_op, rank_info, nccl_call
-- :only_with name_info where class = 'communication' or is_host_collective_mark(name)
-- :column event_id BIGINT     the kernel or span
-- :column on_gpu BOOLEAN      true for a kernel
-- :column name VARCHAR        allreduce, allgather, … in one spelling; NULL if unknown
-- :column group_name VARCHAR  process group; NULL if not in the trace
-- :column group_ranks JSON    ranks of the group; NULL if not in the trace
-- :column group_size BIGINT   number of participating ranks; NULL if unknown
-- :column dtype VARCHAR       element type, in lower case; NULL if unknown
-- :column bytes BIGINT        size of the whole message, as counted by NCCL's tests; NULL if unknown
-- :column step STEP           NULL outside every step
-- :column phase PHASE         of the launch; NULL if unknown
-- :column module_path VARCHAR module that launched it; NULL when unknown
-- :column start_ns BIGINT     start
-- :column end_ns BIGINT       end
with torch_annotation as (
    select
        nesting.track_id,
        nesting.event_id,
        nesting.start_ns,
        nesting.end_ns,
        event.name
    from event
    inner join nesting on event.event_id = nesting.event_id
    where event.category = 'user_annotation' and is_collective_mark(event.name)
),

kernel as (
    select
        event.event_id,
        event.start_ns,
        event.end_ns,
        event.name,
        launch.op_id,
        nesting.track_id,
        nesting.start_ns as launched_ns
    from event
    inner join name_info on (event.category, event.name) = (name_info.category, name_info.name)
    inner join launch on event.event_id = launch.event_id
    left join nesting on coalesce(launch.runtime_id, launch.op_id) = nesting.event_id
    where event.category = 'kernel' and name_info.class = 'communication' and event.end_ns > event.start_ns
),

collective_run as (
    select
        kernel.event_id,
        kernel.start_ns,
        kernel.end_ns,
        true as on_gpu,
        kernel.name,
        kernel.op_id,
        case when kernel.launched_ns < torch_annotation.end_ns then torch_annotation.event_id end as annotation_id,
        case when kernel.launched_ns < torch_annotation.end_ns then torch_annotation.name end as annotation
    from kernel
    asof left join torch_annotation
        on kernel.track_id = torch_annotation.track_id and kernel.launched_ns >= torch_annotation.start_ns
    union all
    select
        event_id,
        start_ns,
        end_ns,
        false,
        name,
        null,
        event_id as annotation_id,
        name as annotation
    from torch_annotation
    where is_host_collective_mark(name) and end_ns > start_ns
),

described_run as (
    select
        collective_run.*,
        coalesce(
            own.name, called.name, split_part(collective_run.annotation, ':', 2), nccl_call.name, collective_run.name
        ) as said,
        coalesce(own.group_name, called.group_name, nccl_call.group_name) as group_name,
        coalesce(own.group_ranks, called.group_ranks) as group_ranks,
        coalesce(
            own.group_size, called.group_size, nccl_call.group_size,
            case
                when json_extract_string(rank_info.metadata, '$.distributedInfo.pg_count') = '1'
                    then rank_info.world_size
            end
        ) as group_size,
        lower(coalesce(own.dtype, called.dtype, json_extract_string(op.input_types, '$[0]'))) as dtype,
        coalesce(own.in_elements, called.in_elements) as in_elements,
        coalesce(own.out_elements, called.out_elements) as out_elements,
        nccl_call.message_bytes,
        try_cast(list_product(try_cast(json_extract(op.input_dims, '$[0]') as bigint[])) as bigint) as elements
    from collective_run
    cross join rank_info
    left join collective as own on collective_run.event_id = own.event_id
    left join collective as called on collective_run.op_id = called.event_id
    left join op on collective_run.annotation_id = op.event_id
    left join nccl_call on collective_run.event_id = nccl_call.event_id
),

named_run as (
    select
        *,
        replace(replace(lower(said), '_', ''), '-', '') as plain,
        bytes_of_dtype(dtype) as element_bytes
    from described_run
),

spelled_run as (
    select
        *,
        collective_of_name(plain) as kind
    from named_run
)

select
    spelled_run.event_id,
    spelled_run.on_gpu,
    spelled_run.kind as name,
    spelled_run.group_name,
    spelled_run.group_ranks,
    spelled_run.group_size,
    spelled_run.dtype,
    -- In doubles, because a damaged number can be too large for the product.
    whole(
        coalesce(
            spelled_run.element_bytes
            * coalesce(
                case
                    when spelled_run.kind = 'alltoall' then spelled_run.in_elements
                    else greatest(spelled_run.in_elements, spelled_run.out_elements)
                end::double,
                spelled_run.elements::double
                * case when spelled_run.kind = 'allgather' then spelled_run.group_size else 1 end
            ),
            -- NCCL names the part of one rank where the ranks' parts differ.
            spelled_run.message_bytes::double
            * case
                when spelled_run.kind in ('allgather', 'reducescatter', 'alltoall') then spelled_run.group_size
                else 1
            end
        )
    ) as bytes,
    label.step,
    label.phase,
    model_op.path as module_path,
    spelled_run.start_ns,
    spelled_run.end_ns
from spelled_run
left join label on spelled_run.event_id = label.event_id
left join model_op on label.module_id = model_op.module_id
order by spelled_run.event_id
