-- Each GPU of a process: busy time, time as the only busy GPU, and the largest part of its time.
--
-- Busy and idle time add up to the observed time of a device, from the first step or first work to the last. Busy time
-- is split by the running work: computation, else communication, else a copy or memset. `gpu_balance` compares the GPUs
-- of a process.
--
-- :param rank BIGINT = NULL             only this rank
-- :reads gpu_event, gpu_state, gpu_busy, idle_part, device
-- :column rank RANK
-- :column device DEVICE                 -1 without a device
-- :column name VARCHAR                  name of the device by the vendor; NULL if not in the file
-- :column gpu_event_count BIGINT        kernels, copies and memsets
-- :column gpu_busy_ns BIGINT            time in which the device is busy
-- :column gpu_idle_ns BIGINT            time in which the device has no work
-- :column gpu_busy_pct DOUBLE           busy time as a share of busy and idle time; NULL if both are zero
-- :column computing_ns BIGINT           busy time with computation
-- :column communication_ns BIGINT       busy time with communication and without computation
-- :column copying_ns BIGINT             busy time with only copies or memsets
-- :column alone_ns BIGINT               busy time while all other devices of the rank are idle
-- :column idle_cause USE_CAUSE          largest cause of the device's idle time, as in `device_use`; NULL without idle
--                                       time
-- :column idle_cause_ns BIGINT          idle time of this cause; NULL without idle time
-- :column bound_by VARCHAR              largest part of the device's time: computing, communication, copying or a cause
--                                       of idle time; NULL if the device has no time
-- :column bound_ns BIGINT               time of this part; NULL if the device has no time
with used_device as (
    select
        rank,
        device,
        count(*) as gpu_event_count
    from gpu_event
    where is_asked($rank, rank) and dur_ns is not null
    group by rank, device
),

-- one row per device: busy time by class
work as (
    select
        rank,
        device,
        coalesce(sum(end_ns - start_ns) filter (where computation), 0)::bigint as computing_ns,
        coalesce(sum(end_ns - start_ns) filter (where communication and not computation), 0)::bigint
            as communication_ns,
        coalesce(sum(end_ns - start_ns) filter (where memory and not communication and not computation), 0)::bigint
            as copying_ns
    from gpu_state
    where is_asked($rank, rank)
    group by rank, device
),

-- Borders of the busy time of any device. While one device is busy, the sum of the device numbers is its number.
border as (
    select
        rank,
        device,
        unnest([start_ns, end_ns]) as at_ns,
        unnest([1, -1]) as change
    from gpu_busy
    where is_asked($rank, rank)
),

merged_border as (
    select
        rank,
        at_ns,
        sum(change) as change,
        sum(change * device::hugeint) as number_change
    from border
    group by rank, at_ns
),

stretch as (
    select
        rank,
        lead(at_ns) over so_far - at_ns as dur_ns,
        sum(change) over so_far as busy_count,
        sum(number_change) over so_far as device
    from merged_border
    window so_far as (partition by rank order by at_ns rows unbounded preceding)
),

alone_time as (
    select
        rank,
        device::bigint as device,
        sum(dur_ns)::bigint as alone_ns
    from stretch
    where busy_count = 1
    group by rank, device
),

idle_time as (
    select
        rank,
        device,
        use_cause(cause) as cause,
        sum(end_ns - start_ns)::bigint as idle_ns
    from idle_part
    where is_asked($rank, rank)
    group by all
),

-- one row per device: idle time and the largest cause
worst_idle as (
    select
        rank,
        device,
        sum(idle_ns)::bigint as gpu_idle_ns,
        arg_max(cause, (idle_ns, cause)) as idle_cause,
        max(idle_ns) as idle_cause_ns
    from idle_time
    where idle_ns > 0
    group by rank, device
),

-- one row per device, with all times
device_time as (
    select
        used_device.*,
        device.name,
        coalesce(work.computing_ns, 0) as computing_ns,
        coalesce(work.communication_ns, 0) as communication_ns,
        coalesce(work.copying_ns, 0) as copying_ns,
        coalesce(alone_time.alone_ns, 0) as alone_ns,
        coalesce(worst_idle.gpu_idle_ns, 0) as gpu_idle_ns,
        worst_idle.idle_cause,
        worst_idle.idle_cause_ns
    from used_device
    left join work on used_device.rank = work.rank and used_device.device = work.device
    left join alone_time on used_device.rank = alone_time.rank and used_device.device = alone_time.device
    left join worst_idle on used_device.rank = worst_idle.rank and used_device.device = worst_idle.device
    left join device on used_device.rank = device.rank and used_device.device = device.device_id
),

device_bound as (
    select
        *,
        computing_ns + communication_ns + copying_ns as gpu_busy_ns,
        greatest(computing_ns, communication_ns, copying_ns, coalesce(idle_cause_ns, 0)) as bound_ns
    from device_time
)

select
    rank,
    device,
    name,
    gpu_event_count,
    gpu_busy_ns,
    gpu_idle_ns,
    100.0 * gpu_busy_ns / nullif(gpu_busy_ns + gpu_idle_ns, 0) as gpu_busy_pct,
    computing_ns,
    communication_ns,
    copying_ns,
    alone_ns,
    idle_cause,
    idle_cause_ns,
    case bound_ns
        when 0 then null
        when computing_ns then 'computing'
        when communication_ns then 'communication'
        when copying_ns then 'copying'
        else idle_cause
    end as bound_by,
    nullif(bound_ns, 0) as bound_ns
from device_bound
order by rank, device
