-- State of each device at each instant, from its first work to its last. Spans never overlap and leave no gap.
--
-- Several pieces of work of one class count once. Between the first and the last work, a device without any running
-- class is idle.
--
-- :reads gpu_event
-- :column rank RANK
-- :column device DEVICE          -1 without a device
-- :column start_ns BIGINT        start
-- :column end_ns BIGINT          end
-- :column computation BOOLEAN    at least one computation kernel runs
-- :column communication BOOLEAN  at least one communication kernel runs
-- :column memory BOOLEAN         at least one copy or memset runs; when all three are false, the device is idle
with border as (
    select
        rank,
        device,
        class,
        unnest([start_ns, end_ns]) as at_ns,
        unnest([1, -1]) as change
    from gpu_event
    where dur_ns > 0
),

-- one row per instant: the changes in the number of running events of each class
device_change as (
    select
        rank,
        device,
        at_ns,
        sum(change * (class = 'computation')::integer) as computation,
        sum(change * (class = 'communication')::integer) as communication,
        sum(change * (class = 'memory')::integer) as memory
    from border
    group by rank, device, at_ns
),

-- one row per span between two instants, with the running classes
state as (
    select
        rank,
        device,
        at_ns as start_ns,
        lead(at_ns) over in_order as end_ns,
        sum(computation) over in_order > 0 as computation,
        sum(communication) over in_order > 0 as communication,
        sum(memory) over in_order > 0 as memory
    from device_change
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
