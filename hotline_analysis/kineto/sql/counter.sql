-- Counter samples: every number among the args of a counter event is a series.
with named as (
    select
        event_id,
        args,
        unnest(json_keys(args)) as series
    from batch
    where ph = 'C' and args is not null
)

select
    event_id,
    series,
    try_cast(json_extract_string(args, '/' || replace(replace(series, '~', '~0'), '/', '~1')) as double) as value,
    (try_cast(json_extract_string(args, '/' || replace(replace(series, '~', '~0'), '/', '~1')) as double) is not null
    )::integer as claimed
from named
order by event_id, series
