-- Bandwidth of copies and memsets over time, by kind.
--
-- The bandwidths of copies of one kind that run at the same time add up. They are those in the trace, else bytes by
-- duration. There is a row for each stretch in which something runs and the sum does not change; in between, and for
-- copies without a duration, the bandwidth is 0.
--
-- :param rank BIGINT = NULL       only this rank
-- :param device BIGINT = NULL     only this device
-- :param step BIGINT = NULL       only copies launched in this step
-- :param phase PHASE = NULL
--                                 only copies launched in this phase
-- :param module VARCHAR = NULL    only copies launched in this module or one in it, by path
-- :reads gpu_copy
-- :column rank BIGINT             process rank
-- :column device BIGINT           device number; -1 when the events name none
-- :column kind VARCHAR            Memcpy HtoD, Memcpy DtoH, Memcpy DtoD, Memset, …
-- :column start_ns BIGINT         start of the stretch
-- :column end_ns BIGINT           end of the stretch
-- :column copy_count BIGINT       copies that run
-- :column gb_per_s DOUBLE         their bandwidth, in 10^9 bytes per second; NULL when the trace does not say
-- :column event_id BIGINT         the first copy that starts at the start; NULL when the stretch begins with an end
with copy as (
    select * from gpu_copy
    where
        dur_ns > 0
        and is_asked($rank, rank)
        and is_asked($device, device)
        and is_asked($step, step)
        and is_asked($phase, phase)
        and in_module(module_path, $module)
),

edge as (
    select
        rank,
        device,
        kind,
        unnest([start_ns, end_ns]) as at_ns,
        unnest([1, -1]) as change,
        bytes_per_s,
        unnest([event_id, null]) as event_id
    from copy
),

change as (
    select
        rank,
        device,
        kind,
        at_ns,
        sum(change)::bigint as copies,
        coalesce(sum(change) filter (where bytes_per_s is null), 0)::bigint as unknown,
        coalesce(sum(change * bytes_per_s), 0)::bigint as bytes_per_s,
        min(event_id) as event_id
    from edge
    group by rank, device, kind, at_ns
),

stretch as (
    select
        rank,
        device,
        kind,
        at_ns as start_ns,
        lead(at_ns) over so_far as end_ns,
        sum(copies) over so_far as copy_count,
        case when sum(unknown) over so_far = 0 then sum(bytes_per_s) over so_far end as bytes_per_s,
        event_id
    from change
    window so_far as (partition by rank, device, kind order by at_ns rows unbounded preceding) -- noqa: PRS
)

select
    rank,
    device,
    kind,
    start_ns,
    end_ns,
    copy_count::bigint as copy_count,
    bytes_per_s / 1e9 as gb_per_s,
    event_id
from stretch
where copy_count > 0
order by rank, device, kind, start_ns
