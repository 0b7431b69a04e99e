-- What each device does at each moment: its time cut where the set of running classes of work changes.
--
-- Several pieces of work of one class count once. Between the first and the last work of a device nothing is left out:
-- where no class runs, the device is idle.
--
-- :reads event, name_info, gpu_op
with work as (
    select
        event.rank,
        coalesce(gpu_op.device, -1) as device,
        event.start_ns,
        event.end_ns,
        name_info.class
    from event
    inner join name_info
        on (event.rank, event.category, event.name) = (name_info.rank, name_info.category, name_info.name)
    left join gpu_op on event.rank = gpu_op.rank and event.event_id = gpu_op.event_id
    where event.category in ('kernel', 'gpu_memcpy', 'gpu_memset') and event.dur_ns > 0
),

border as (
    select
        rank,
        device,
        start_ns as at_ns,
        (class = 'computation')::integer as computation,
        (class = 'communication')::integer as communication,
        (class = 'memory')::integer as memory
    from work
    union all
    select
        rank,
        device,
        end_ns,
        -(class = 'computation')::integer,
        -(class = 'communication')::integer,
        -(class = 'memory')::integer
    from work
),

merged as (
    select
        rank,
        device,
        at_ns,
        sum(computation) as computation,
        sum(communication) as communication,
        sum(memory) as memory
    from border
    group by rank, device, at_ns
),

state as (
    select
        rank,
        device,
        at_ns as start_ns,
        lead(at_ns) over in_order as end_ns,
        sum(computation) over in_order > 0 as computation,
        sum(communication) over in_order > 0 as communication,
        sum(memory) over in_order > 0 as memory
    from merged
    window in_order as (partition by rank, device order by at_ns rows unbounded preceding)
)

select
    rank,
    device,
    start_ns,
    end_ns,
    computation,
    communication,
    memory
from state
where end_ns is not null
