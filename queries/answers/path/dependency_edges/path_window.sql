-- The one row is the window: all edges lie in it.
--
-- :takes start_ns, end_ns, until
-- :reads rank_work
-- :column start_ns BIGINT     start of the window; with `work`, when all GPU work launched before is done
-- :column end_ns BIGINT       its end; but with `host`, when all GPU work that belongs to it is done
-- :column call_dur_ns BIGINT  what launch calls of the rank usually take; 0 without one
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
