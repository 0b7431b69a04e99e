-- Bandwidth of copies and memsets over time, by kind.
--
-- The bandwidths of simultaneous copies of one kind add up. A bandwidth comes from the trace, else from bytes and
-- duration. Each row is an interval with running copies and a constant sum. Outside the rows, and for copies without a
-- duration, the bandwidth is 0.
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
-- :column start_ns BIGINT         start of the interval
-- :column end_ns BIGINT           end of the interval
-- :column copy_count BIGINT       number of running copies
-- :column gb_per_s DOUBLE         sum of the bandwidths, in 10^9 bytes per second; NULL if unknown
-- :column event_id BIGINT         first copy starting at the start; NULL if the interval begins with the end of a copy
with copy as ( -- noqa: ST03
    select * from gpu_copy
    where
        dur_ns > 0
        and is_asked($rank, rank)
        and is_asked($device, device)
        and is_asked($step, step)
        and is_asked($phase, phase)
        and in_module(module_path, $module)
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
from copy_stretches('copy')
where copy_count > 0
order by rank, device, kind, start_ns
