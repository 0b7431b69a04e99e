-- One row per kernel, copy or memset of the rank, with its launching call.
--
-- :takes rank, start_ns
-- :reads event, gpu_op, label, launch, name_info, nesting
-- :column event_id BIGINT       the GPU event
-- :column track_id BIGINT       track of the GPU event
-- :column device DEVICE         -1 without a device
-- :column stream BIGINT         stream; -1 if the event has no stream
-- :column start_ns BIGINT       start of the GPU event
-- :column end_ns BIGINT         end of the GPU event
-- :column runtime_id BIGINT     launching call; NULL if the trace has no launching call
-- :column call_track_id BIGINT  thread of the launching call, or else of the op around the launch; NULL without both
-- :column call_ns BIGINT        start of the call, or else of the op; NULL without both, and if it starts after the
--                               work
-- :column call_end_ns BIGINT    end of the call, or else of the op; NULL without both
-- :column call_dur_ns BIGINT    duration of the call; 0 without a call
-- :column launched_ns BIGINT    time at which the work entered its queue, as far as known; before the window for work
--                               launched before the trace
-- :column is_awaited BOOLEAN    a copy whose call waits for the copy
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
    -- cudaMemcpyAsync returns when pageable memory is staged or filled, and immediately for pinned memory (CUDA runtime
    -- API, "API synchronization behavior")
    event.category = 'gpu_memcpy'
    and launch.runtime_id is not null
    and not is_copy_without_cpu(event.name)
    and (is_pageable_copy(event.name) or coalesce(caller.is_blocking, false)) as is_awaited
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
