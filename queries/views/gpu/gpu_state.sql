-- What each device does at each moment, from its first work to its last. Spans never overlap and leave no gap.
--
-- Several pieces of work of one class count once. Between the first and the last work of a device nothing is left out:
-- where no class runs, the device is idle.
--
-- :reads gpu_event
-- :column rank BIGINT            process rank
-- :column device BIGINT          device number; -1 when the events name none
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

merged as (
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
