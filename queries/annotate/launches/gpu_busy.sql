-- Times when a device runs at least one kernel, copy or memset, whatever the stream: the union of their intervals.
-- Spans never overlap.
--
-- Touching intervals are merged. Synchronisation records and annotations on GPU tracks are no work and do not count.
--
-- :reads timed, gpu_op
-- :column device BIGINT    device number; -1 when the events name none
-- :column start_ns BIGINT  start
-- :column end_ns BIGINT    end
with work as (
    -- GPU work that takes time, with its device.
    select
        coalesce(gpu_op.device, -1) as device,
        timed.event_id,
        timed.start_ns,
        timed.end_ns
    from timed
    left join gpu_op on timed.event_id = gpu_op.event_id
    where timed.category in ('kernel', 'gpu_memcpy', 'gpu_memset') and timed.dur_ns > 0
),

-- Work with the latest end of all work that started by then.
work_so_far as (
    select
        *,
        max(end_ns) over (partition by device order by start_ns, event_id rows unbounded preceding) as reached_ns
    from work
),

-- Work with the latest end of all work that started before it.
compared_work as (
    select
        *,
        lag(reached_ns) over (partition by device order by start_ns, event_id) as covered_to_ns
    from work_so_far
),

-- Work with the number of its span: a new one starts after a gap.
numbered_work as (
    select
        *,
        sum((covered_to_ns is null or start_ns > covered_to_ns)::integer) over (
            partition by device order by start_ns, event_id rows unbounded preceding
        ) as island
    from compared_work
)

select
    device,
    min(start_ns) as start_ns,
    max(end_ns) as end_ns
from numbered_work
group by device, island
order by device, start_ns
