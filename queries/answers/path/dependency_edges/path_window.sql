-- One row: the window that contains all edges.
--
-- :takes start_ns, end_ns, until
-- :reads rank_work
-- :column start_ns BIGINT     start of the window; with `work`, the time at which all GPU work launched before
--                             `start_ns` is done
-- :column end_ns BIGINT       end of the window; except with `host`, the time at which all GPU work of the window is
--                             done
-- :column call_dur_ns BIGINT  median duration of the rank's launching calls; 0 without such calls
select
    case $until
        when 'work'
            then greatest($start_ns, coalesce(max(end_ns) filter (where launched_ns < $start_ns), $start_ns))
        else $start_ns
    end::bigint as start_ns,
    case $until
        when 'host' then $end_ns
        when 'work' then greatest($end_ns, coalesce(max(end_ns) filter (where launched_ns < $end_ns), $end_ns))
        else
            greatest(
                $end_ns,
                coalesce(max(end_ns) filter (where launched_ns >= $start_ns and launched_ns < $end_ns), $end_ns)
            )
    end::bigint as end_ns,
    coalesce(quantile_disc(call_dur_ns, 0.5) filter (where call_dur_ns > 0), 0) as call_dur_ns
from rank_work
