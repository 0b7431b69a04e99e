-- Counter samples: every number among the args of a counter event is a series.
--
-- Names and values are taken side by side: looking each series up by its name reads the args once per series.
with named as (
    select
        event_id,
        unnest(json_keys(args)) as series,
        try_cast(json_extract_string(unnest(json_extract(args, '$.*')), '$') as double) as value
    from batch
    where ph = 'C' and args is not null
)

select
    event_id,
    series,
    value,
    (value is not null)::integer as claimed
from named
order by event_id, series
