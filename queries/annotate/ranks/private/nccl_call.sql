-- NCCL's own calls of each communication kernel, from the ranges that NCCL pushes and Nsight Systems records.
--
-- A call outside a group launches its kernel itself. The calls of a group are launched by its end, `ncclGroupEnd`: a
-- kernel launched there belongs to all calls since the previous such end on the thread. Groups can be nested, and only
-- the end of the outermost group launches. If the end launches several kernels, a kernel has the size of a call only
-- where all calls are equal and as many as the kernels.
--
-- :reads event, nesting, collective, launch, name_info
-- :only_with event where category = 'library_range'
-- :column event_id BIGINT       the kernel
-- :column name VARCHAR          NCCL's function, such as ncclAllReduce; NULL if the calls differ
-- :column message_bytes BIGINT  size that the calls name; NULL if unknown. Of an all-gather and a reduce-scatter, NCCL
--                               names the size of one rank's part
-- :column group_name VARCHAR    NCCL's number of the communicator; NULL if unknown
-- :column group_size BIGINT     number of ranks; NULL if the trace lacks the call that created the communicator
with nccl_range as (
    select
        nesting.track_id,
        nesting.event_id,
        nesting.start_ns,
        nesting.end_ns,
        event.name,
        collective.in_elements as message_bytes,
        collective.group_name,
        event.name = 'ncclGroupEnd' as is_end,
        coalesce(collective.in_elements is not null, false) as is_call
    from event
    inner join nesting on event.event_id = nesting.event_id
    left join collective on event.event_id = collective.event_id
    where event.category = 'library_range' and (event.name = 'ncclGroupEnd' or collective.event_id is not null)
),

communicator as (
    select
        group_name,
        max(group_size) as group_size
    from collective
    where group_size is not null
    group by group_name
),

launched_kernel as (
    select
        event.event_id,
        nesting.track_id,
        nesting.start_ns
    from event
    inner join name_info on (event.category, event.name) = (name_info.category, name_info.name)
    inner join launch on event.event_id = launch.event_id
    inner join nesting on coalesce(launch.runtime_id, launch.op_id) = nesting.event_id
    where event.category = 'kernel' and name_info.class = 'communication'
),

-- Kernels launched inside a range of NCCL.
kernel_in_range as (
    select
        launched_kernel.event_id,
        nccl_range.event_id as range_id,
        nccl_range.is_end
    from launched_kernel
    asof inner join nccl_range
        on launched_kernel.track_id = nccl_range.track_id and launched_kernel.start_ns >= nccl_range.start_ns
    where launched_kernel.start_ns < nccl_range.end_ns
),

-- Ends of groups that launch kernels, with the end before.
launching_end as (
    select
        nccl_range.event_id as range_id,
        nccl_range.track_id,
        nccl_range.start_ns,
        lag(nccl_range.end_ns) over (partition by nccl_range.track_id order by nccl_range.start_ns) as after_ns
    from nccl_range
    where nccl_range.event_id in (select range_id from kernel_in_range where is_end)
),

-- Calls with the range that launches them: the call itself, or the end of the group.
launched_call as (
    select
        event_id as range_id,
        name,
        message_bytes,
        group_name
    from nccl_range
    where is_call and event_id in (select range_id from kernel_in_range)
    union all
    select
        launching_end.range_id,
        nccl_range.name,
        nccl_range.message_bytes,
        nccl_range.group_name
    from nccl_range
    asof inner join launching_end
        on nccl_range.track_id = launching_end.track_id and nccl_range.start_ns <= launching_end.start_ns
    where
        nccl_range.is_call
        and nccl_range.start_ns >= coalesce(launching_end.after_ns, nccl_range.start_ns)
        and nccl_range.event_id not in (select range_id from kernel_in_range)
),

call_total as (
    select
        range_id,
        count(*) as call_count,
        case
            when count(distinct name) = 1 then min(name)
            when bool_and(name in ('ncclSend', 'ncclRecv')) then 'ncclSendRecv'
        end as kernel_name,
        sum(message_bytes) as all_bytes,
        case
            when count(distinct {'name': name, 'message_bytes': message_bytes}) = 1 then min(message_bytes)
        end as one_bytes,
        case when count(distinct group_name) = 1 then min(group_name) end as group_name
    from launched_call
    group by range_id
),

kernel_total as (
    select
        range_id,
        count(*) as kernel_count
    from kernel_in_range
    group by range_id
)

select
    kernel_in_range.event_id,
    call_total.kernel_name as name,
    case
        when call_total.kernel_name is null then null
        when kernel_total.kernel_count = 1 then call_total.all_bytes
        when kernel_total.kernel_count = call_total.call_count then call_total.one_bytes
    end::bigint as message_bytes,
    call_total.group_name,
    communicator.group_size
from kernel_in_range
inner join kernel_total on kernel_in_range.range_id = kernel_total.range_id
inner join call_total on kernel_in_range.range_id = call_total.range_id
left join communicator on call_total.group_name = communicator.group_name
order by kernel_in_range.event_id
