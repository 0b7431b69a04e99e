-- Counter samples: every number among the args of a counter event is a series.
--
-- Names and values are unnested together. Looking up each series by name would read the args once per series.
with counter_sample as (
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
from counter_sample
order by event_id, series
