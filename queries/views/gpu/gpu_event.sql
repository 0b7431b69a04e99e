-- Every kernel, copy and memset of the trace: kind, device, stream and time.
--
-- GPU work means complete events, with a start and a duration. The reader gives no other event a duration, so `dur_ns`
-- is the only test needed, here and in all tables of work (`launch`, `label`, `gpu_busy`). The importer reports the
-- number of other events. `gpu_work` adds the launch, step, phase and module.
--
-- :reads event, name_info, gpu_op
-- :column rank RANK
-- :column event_id BIGINT     the GPU event
-- :column category VARCHAR    kernel, gpu_memcpy or gpu_memset
-- :column name VARCHAR        name of the event
-- :column short_name VARCHAR  name without return type, namespaces, template arguments and tile sizes
-- :column class KERNEL_CLASS
-- :column device DEVICE       -1 without a device
-- :column stream BIGINT       stream; NULL if the event has no stream
-- :column start_ns BIGINT     start
-- :column dur_ns BIGINT       duration
-- :column end_ns BIGINT       end
select
    event.rank,
    event.event_id,
    event.category,
    event.name,
    name_info.short_name,
    name_info.class,
    device_of(gpu_op.device) as device,
    gpu_op.stream,
    event.start_ns,
    event.dur_ns,
    event.end_ns
from event
inner join name_info
    on (event.rank, event.category, event.name) = (name_info.rank, name_info.category, name_info.name)
left join gpu_op on event.rank = gpu_op.rank and event.event_id = gpu_op.event_id
where event.category in ('kernel', 'gpu_memcpy', 'gpu_memset') and event.dur_ns is not null
