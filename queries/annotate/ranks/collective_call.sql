-- Every collective that a rank took part in: the kernel that did it, or on the CPU the span of gloo or MPI.
--
-- What it is comes from the kernel's own arguments, else from the op around its launch, else from the annotation that
-- torch puts around the call, else from the kernel's name. Names are in one spelling: allreduce, allgather,
-- reducescatter, alltoall, broadcast, reduce, gather, scatter, barrier, send, recv.
--
-- :reads event, name_info, launch, nesting, collective, op, label, model_op, rank_info
-- :only_with name_info where class = 'communication' or regexp_matches(name, '^(gloo|mpi):')
-- :column event_id BIGINT     the kernel or span
-- :column on_gpu BOOLEAN      it is a kernel
-- :column name VARCHAR        allreduce, allgather, … in one spelling; NULL when unknown
-- :column group_name VARCHAR  process group; NULL when the trace does not say
-- :column group_ranks JSON    ranks of the group; NULL when the trace does not say
-- :column group_size BIGINT   ranks that take part; NULL when unknown
-- :column dtype VARCHAR       element type, in lower case; NULL when unknown
-- :column bytes BIGINT        size of the whole message, as NCCL's tests count it; NULL when unknown
-- :column step BIGINT         number of the training step; NULL outside every step
-- :column phase VARCHAR       phase that launched it; NULL when unknown
-- :column module_path VARCHAR module that launched it; NULL when unknown
-- :column start_ns BIGINT     start
-- :column end_ns BIGINT       end
with announced as (
    select
        nesting.track_id,
        nesting.event_id,
        nesting.start_ns,
        nesting.end_ns,
        event.name
    from event
    inner join nesting on event.event_id = nesting.event_id
    where event.category = 'user_annotation' and regexp_matches(event.name, '^(nccl|gloo|mpi|ucc|xccl|hccl):')
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

done as (
    select
        kernel.event_id,
        kernel.start_ns,
        kernel.end_ns,
        true as on_gpu,
        kernel.name,
        kernel.op_id,
        case when kernel.launched_ns < announced.end_ns then announced.event_id end as annotation_id,
        case when kernel.launched_ns < announced.end_ns then announced.name end as annotation
    from kernel
    asof left join announced
        on kernel.track_id = announced.track_id and kernel.launched_ns >= announced.start_ns
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
    from announced
    where regexp_matches(name, '^(gloo|mpi):') and end_ns > start_ns
),

described as (
    select
        done.*,
        coalesce(own.name, called.name, split_part(done.annotation, ':', 2), done.name) as said,
        coalesce(own.group_name, called.group_name) as group_name,
        coalesce(own.group_ranks, called.group_ranks) as group_ranks,
        coalesce(
            own.group_size, called.group_size,
            case
                when json_extract_string(rank_info.metadata, '$.distributedInfo.pg_count') = '1'
                    then rank_info.world_size
            end
        ) as group_size,
        lower(coalesce(own.dtype, called.dtype, json_extract_string(op.input_types, '$[0]'))) as dtype,
        coalesce(own.in_elements, called.in_elements) as in_elements,
        coalesce(own.out_elements, called.out_elements) as out_elements,
        try_cast(list_product(try_cast(json_extract(op.input_dims, '$[0]') as bigint[])) as bigint) as elements
    from done
    cross join rank_info
    left join collective as own on done.event_id = own.event_id
    left join collective as called on done.op_id = called.event_id
    left join op on done.annotation_id = op.event_id
),

named as (
    select
        *,
        replace(replace(lower(said), '_', ''), '-', '') as plain,
        case
            when regexp_matches(dtype, '(double|long|int64|float64|complexfloat)') then 8
            when regexp_matches(dtype, '(bfloat16|half|short|float16|int16)') then 2
            when regexp_matches(dtype, '(bool|byte|char|int8|float8)') then 1
            when regexp_matches(dtype, '(float|int)') then 4
        end as element_bytes
    from described
),

spelled as (
    select
        *,
        case
            when contains(plain, 'allreduce') then 'allreduce'
            when contains(plain, 'reducescatter') then 'reducescatter'
            when contains(plain, 'allgather') then 'allgather'
            when contains(plain, 'alltoall') or contains(plain, 'all2all') then 'alltoall'
            when contains(plain, 'broadcast') then 'broadcast'
            when contains(plain, 'barrier') then 'barrier'
            when contains(plain, 'scatter') then 'scatter'
            when contains(plain, 'gather') then 'gather'
            when regexp_matches(plain, '(^|kernel|coalesced)reduce') then 'reduce'
            when contains(plain, 'sendrecv') then 'sendrecv'
            when contains(plain, 'send') then 'send'
            when contains(plain, 'recv') then 'recv'
        end as kind
    from named
)

select
    spelled.event_id,
    spelled.on_gpu,
    spelled.kind as name,
    spelled.group_name,
    spelled.group_ranks,
    spelled.group_size,
    spelled.dtype,
    -- In doubles, since a damaged number can be too large for the product.
    whole(
        spelled.element_bytes
        * coalesce(
            case
                when spelled.kind = 'alltoall' then spelled.in_elements
                else greatest(spelled.in_elements, spelled.out_elements)
            end::double,
            spelled.elements::double * case when spelled.kind = 'allgather' then spelled.group_size else 1 end
        )
    ) as bytes,
    label.step,
    label.phase,
    model_op.path as module_path,
    spelled.start_ns,
    spelled.end_ns
from spelled
left join label on spelled.event_id = label.event_id
left join model_op on label.module_id = model_op.module_id
order by spelled.event_id
