-- Surplus device numbers, for files with more devices than a process can have: the devices with the least work.
--
-- The importer removes the device number from their work. Otherwise, tables with a row per device and piece of time
-- would have thousands of devices.
--
-- :reads event, gpu_op
-- :column device DEVICE
with device_work as (
    select
        gpu_op.device,
        coalesce(sum(event.dur_ns), 0) as work_ns
    from gpu_op
    inner join event on gpu_op.event_id = event.event_id
    where gpu_op.device is not null
    group by gpu_op.device
),

ranked_device as (
    select
        device,
        row_number() over (order by work_ns desc, device) as place
    from device_work
)

select device
from ranked_device
where place > most_devices()
order by device
