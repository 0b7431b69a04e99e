-- Samples of GPU metrics: one event per time and device, with one series per metric.
--
-- The lowest byte of `typeId` is the number of the GPU (Nsight Systems, "Common SQLite Examples", GPU metrics). The
-- process numbers its devices itself: only samples of its devices are kept, if the export lists these.
select
    min(raw.event_id) as event_id,
    'C' as ph,
    null::varchar as category,
    coalesce(any_value(metric_name.source), 'GPU metrics') as name,
    coalesce(any_value(device_number.device_id), raw."typeId" & 255)::varchar as pid,
    null::varchar as tid,
    start_in_time(raw."timestamp") as start_ns,
    null::bigint as dur_ns,
    null::bigint as correlation
from raw
left join metric_name
    on raw."typeId" is not distinct from metric_name.type_id and raw."metricId" = metric_name.metric_id
left join device_number on (raw."typeId" & 255) = device_number.gpu_id
where device_number.gpu_id is not null or not exists (from device_number)
group by raw."timestamp", raw."typeId"
order by event_id
