-- The metric values of each sample.
select
    min(raw.event_id) over (partition by raw."timestamp", raw."typeId") as event_id,
    coalesce(metric_name.name, concat('metric ', raw."metricId")) as series,
    raw."value"::double as value
from raw
left join metric_name
    on raw."typeId" is not distinct from metric_name.type_id and raw."metricId" = metric_name.metric_id
left join device_number on (raw."typeId" & 255) = device_number.gpu_id
where device_number.gpu_id is not null or not exists (from device_number)
order by event_id, series
