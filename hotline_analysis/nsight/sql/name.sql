-- Metadata events with the names of processes, threads and streams, in Kineto's format.
select
    event_id,
    'M' as ph,
    null::varchar as category,
    field as name,
    pid,
    tid,
    null::bigint as start_ns,
    null::bigint as dur_ns,
    null::bigint as correlation,
    case field
        when 'process_labels' then json_object('labels', value)
        else json_object('name', value)
    end as args
from raw
