-- One row per kernel, copy or memset of the rank, with its launching call.
--
-- :takes rank, start_ns
-- :reads gpu_event
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
    event_id,
    track_id,
    device,
    stream_of(stream) as stream,
    start_ns,
    end_ns,
    runtime_id,
    call_track_id,
    case when call_start_ns <= start_ns then call_start_ns end as call_ns,
    call_end_ns,
    case when runtime_id is not null then call_end_ns - call_start_ns else 0 end as call_dur_ns,
    case
        when bucket = 'pre_window' then least($start_ns - 1, start_ns)
        else least(coalesce(call_start_ns, start_ns), start_ns)
    end as launched_ns,
    -- cudaMemcpyAsync returns when pageable memory is staged or filled, and immediately for pinned memory (CUDA runtime
    -- API, "API synchronization behavior")
    category = 'gpu_memcpy'
    and runtime_id is not null
    and not is_copy_without_cpu(name)
    and (is_pageable_copy(name) or is_blocking) as is_awaited
from gpu_event
where rank = $rank
