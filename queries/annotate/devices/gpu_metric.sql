-- Measured use of a device: multiprocessors, tensor cores, memory and links, by Nsight Systems' GPU metrics.
--
-- One row per sample. The rules are in `rules/gpu_metrics.csv`. Metrics in other units than percent, and other metrics,
-- stay in `counter`.
--
-- :reads counter, event, track, gpu_metrics
-- :only_with counter
-- :column event_id BIGINT         the sample's event
-- :column device DEVICE
-- :column start_ns BIGINT         time of the sample
-- :column sm_active_pct DOUBLE    multiprocessors with work; NULL if not measured, as all others
-- :column tensor_active_pct DOUBLE working tensor cores
-- :column dram_read_pct DOUBLE    reads of the device's memory, as a share of its bandwidth
-- :column dram_write_pct DOUBLE   writes of the device's memory
-- :column link_in_pct DOUBLE      receiving side of NVLink, as a share of its bandwidth
-- :column link_out_pct DOUBLE     sending side of NVLink
with series as (
    -- Different names of metrics, with their measure.
    select
        counter.series,
        arg_min(gpu_metrics.measure, gpu_metrics.position) as measure
    from (select distinct series from counter) as counter
    inner join gpu_metrics on regexp_matches(counter.series, gpu_metrics.pattern, 'i')
    where not contains(counter.series, '[') or contains(counter.series, '%')
    group by counter.series
)

select
    event.event_id,
    try_cast(track.pid as bigint) as device,
    event.start_ns,
    at_most_all(sum(counter.value) filter (where series.measure = 'sm_active')) as sm_active_pct,
    at_most_all(sum(counter.value) filter (where series.measure = 'tensor_active')) as tensor_active_pct,
    at_most_all(sum(counter.value) filter (where series.measure = 'dram_read')) as dram_read_pct,
    at_most_all(sum(counter.value) filter (where series.measure = 'dram_write')) as dram_write_pct,
    at_most_all(sum(counter.value) filter (where series.measure = 'link_in')) as link_in_pct,
    at_most_all(sum(counter.value) filter (where series.measure = 'link_out')) as link_out_pct
from counter
inner join series on counter.series = series.series
inner join event on counter.event_id = event.event_id
inner join track on event.track_id = track.track_id
where
    event.start_ns is not null
    and counter.value between 0 and 100
    and try_cast(track.pid as bigint) is not null
group by event.event_id, track.pid, event.start_ns
order by event.event_id
