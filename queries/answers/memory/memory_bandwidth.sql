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
