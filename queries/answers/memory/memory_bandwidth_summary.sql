-- Amount, duration and bandwidth of copies and memsets, by kind.
--
-- The bandwidths of simultaneous copies add up. Mean and median are over the time with at least one running copy, not
-- over copies. The driver stages copies from and to pageable host memory, and the host waits for the staging.
--
-- :param rank BIGINT = NULL       only this rank
-- :param device BIGINT = NULL     only this device
-- :param step BIGINT = NULL       only copies launched in this step
-- :param phase PHASE = NULL       only copies launched in this phase
-- :param module VARCHAR = NULL    only copies launched in this module or its submodules, by path
-- :reads gpu_copy
-- :column rank RANK
-- :column device DEVICE           -1 without a device
-- :column kind VARCHAR            Memcpy HtoD, Memcpy DtoH, Memcpy DtoD, Memset, …
-- :column copy_count BIGINT       number of copies
-- :column bytes BIGINT            bytes moved or set; NULL if unknown
-- :column pageable_bytes BIGINT   bytes moved from or to pageable host memory
-- :column copy_ns BIGINT          sum of the durations
-- :column active_ns BIGINT        time with at least one running copy
-- :column mean_gb_per_s DOUBLE    mean bandwidth over the active time, in 10^9 bytes per second; NULL if unknown
-- :column median_gb_per_s DOUBLE  time-weighted median bandwidth over the active time
-- :column max_gb_per_s DOUBLE     largest bandwidth
-- :column slowest_id BIGINT       the longest copy
with copy as (
    select * from gpu_copy
    where
        dur_ns is not null
        and is_asked($rank, rank)
        and is_asked($device, device)
        and is_asked($step, step)
        and is_asked($phase, phase)
        and in_module(module_path, $module)
),

-- one row per kind and bandwidth: the time at this bandwidth
bandwidth_time as (
    select
        rank,
        device,
        kind,
        bytes_per_s,
        sum(end_ns - start_ns) as dur_ns
    from copy_stretches('copy')
    where copy_count > 0
    group by rank, device, kind, bytes_per_s
),

ranked_bandwidth as (
    select
        *,
        sum(dur_ns) over (partition by rank, device, kind order by bytes_per_s nulls last) as up_to_ns,
        sum(dur_ns) filter (where bytes_per_s is not null) over (partition by rank, device, kind) as known_ns
    from bandwidth_time
),

-- one row per kind: mean, median and maximum bandwidth
rate as (
    select
        rank,
        device,
        kind,
        sum(dur_ns)::bigint as active_ns,
        sum(bytes_per_s * dur_ns)::double / sum(dur_ns) filter (where bytes_per_s is not null) / 1e9 as mean_gb_per_s,
        min(bytes_per_s) filter (where 2 * up_to_ns >= known_ns)::double / 1e9 as median_gb_per_s,
        max(bytes_per_s)::double / 1e9 as max_gb_per_s
    from ranked_bandwidth
    group by rank, device, kind
),

-- one row per kind: number, bytes and duration of the copies
total as (
    select
        rank,
        device,
        kind,
        count(*) as copy_count,
        sum(bytes)::bigint as bytes,
        case
            when sum(bytes) is not null
                then coalesce(sum(bytes) filter (where is_pageable), 0)::bigint
        end as pageable_bytes,
        sum(dur_ns)::bigint as copy_ns,
        arg_max(event_id, (dur_ns, -event_id)) as slowest_id
    from copy
    group by rank, device, kind
)

select
    total.rank,
    total.device,
    total.kind,
    total.copy_count,
    total.bytes,
    total.pageable_bytes,
    total.copy_ns,
    coalesce(rate.active_ns, 0) as active_ns,
    rate.mean_gb_per_s,
    rate.median_gb_per_s,
    rate.max_gb_per_s,
    total.slowest_id
from total
left join rate on total.rank = rate.rank and total.device = rate.device and total.kind = rate.kind
order by total.rank, total.device, total.kind
