-- Every kernel, copy and memset as the trace shows it: what it is, and where and when it ran.
--
-- GPU work is what lies in time: complete events, which have a start and a duration. The reader gives no other event a
-- duration, so `dur_ns` alone tells, here and in all tables of work (`launch`, `label`, `gpu_busy`); the importer says
-- how many others there are. `gpu_work` says how it was launched and where it counts to, too.
--
-- :reads event, name_info, gpu_op
-- :column rank BIGINT         process rank
-- :column event_id BIGINT     the GPU event
-- :column category VARCHAR    kernel, gpu_memcpy or gpu_memset
-- :column name VARCHAR        the event's name
-- :column short_name VARCHAR  without return type, namespaces, template arguments and tile sizes
-- :column class VARCHAR       computation, communication or memory
-- :column device BIGINT       device number; -1 when the event names none
-- :column stream BIGINT       stream; NULL when the event names none
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
