-- A row is a kernel, copy or memset of the rank, and the call that launched it.
--
-- :takes rank, start_ns
-- :reads event, gpu_op, label, launch, name_info, nesting
-- :column event_id BIGINT       the GPU event
-- :column track_id BIGINT       its track
-- :column device BIGINT         the device; -1 where the file names none
-- :column stream BIGINT         the stream; -1 where the file names none
-- :column start_ns BIGINT       its start
-- :column end_ns BIGINT         its end
-- :column runtime_id BIGINT     the call that launched it; NULL when the trace holds none
-- :column call_track_id BIGINT  the thread of this call, or else of the op around the launch; NULL without both
-- :column call_ns BIGINT        start of the call, or else the op; NULL without both, and if it starts after the work
-- :column call_end_ns BIGINT    its end; NULL without both
-- :column call_dur_ns BIGINT    duration of the call; 0 without one
-- :column launched_ns BIGINT    since when the work waits in its queue, as far as is known; before the window for work
--                               that was launched before the trace begins
-- :column is_awaited BOOLEAN    a copy whose call waits for it
select
    event.event_id,
    event.track_id,
    coalesce(gpu_op.device, -1) as device,
    coalesce(gpu_op.stream, -1) as stream,
    event.start_ns,
    event.end_ns,
    launch.runtime_id,
    call.track_id as call_track_id,
    case when call.start_ns <= event.start_ns then call.start_ns end as call_ns,
    call.end_ns as call_end_ns,
    case when launch.runtime_id is not null then call.end_ns - call.start_ns else 0 end as call_dur_ns,
    case
        when label.bucket = 'pre_window' then least($start_ns - 1, event.start_ns)
        else least(coalesce(call.start_ns, event.start_ns), event.start_ns)
    end as launched_ns,
    -- cudaMemcpyAsync returns when pageable memory is staged or filled; with pinned memory, at once (CUDA runtime
    -- API, "API synchronization behavior")
    event.category = 'gpu_memcpy'
    and launch.runtime_id is not null
    and not regexp_matches(event.name, '(?i)DtoD|DeviceToDevice|Device -> Device')
    and (contains(event.name, 'Pageable') or coalesce(caller.is_blocking, false)) as is_awaited
from event
inner join gpu_op on event.rank = gpu_op.rank and event.event_id = gpu_op.event_id
inner join launch on event.rank = launch.rank and event.event_id = launch.event_id
left join label on event.rank = label.rank and event.event_id = label.event_id
left join nesting as call
    on launch.rank = call.rank and coalesce(launch.runtime_id, launch.op_id) = call.event_id
left join event as call_event
    on event.category = 'gpu_memcpy' and launch.rank = call_event.rank and launch.runtime_id = call_event.event_id
left join name_info as caller
    on (call_event.rank, call_event.category, call_event.name) = (caller.rank, caller.category, caller.name)
where event.rank = $rank and event.category in ('kernel', 'gpu_memcpy', 'gpu_memset')
