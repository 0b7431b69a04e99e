-- Calls in which a CPU thread waits for the GPU, and the waiting time: the part of the call with a busy device.
--
-- A `sync` call returns when the GPU is done. A `copy` from or to pageable memory, or by a blocking call, returns when
-- the memory is staged or filled, and therefore waits for all earlier work of the stream (CUDA runtime API, "API
-- synchronization behavior"; HIP's `hipMemcpyWithStream` also blocks). A launch into a `full_queue` waits until one of
-- the pending launches starts: 1000 launches are pending on the stream, or the profiler reports a full queue. Among
-- nested calls, the outer call counts.
--
-- :reads timed, event, name_class, nesting, launch, gpu_op, gpu_busy
-- :only_with timed where category in ('cuda_runtime', 'cuda_driver')
-- :column event_id BIGINT   the call
-- :column track_id BIGINT   the thread
-- :column kind VARCHAR      sync, copy (of pageable memory) or full_queue (a launch with 1000 launches pending on the
--                           stream)
-- :column start_ns BIGINT   start of the call
-- :column end_ns BIGINT     end of the call
-- :column waited_ns BIGINT  part of the call with a busy device
-- :column work_id BIGINT    the awaited copy; NULL for other kinds
with busy_stretch as (
    -- Stretches in which any device is busy, with the total busy time before each.
    select
        start_ns,
        end_ns,
        sum(end_ns - start_ns) over (order by start_ns) - (end_ns - start_ns) as before_ns
    from merged('gpu_busy', null)
),

-- Launching calls by stream, with the start of the call's first work.
launch_call as (
    select
        launch.runtime_id,
        device_of(gpu_op.device) as device,
        stream_of(gpu_op.stream) as stream,
        any_value(launch.launch_start_ns) as call_ns,
        min(timed.start_ns) as start_ns
    from launch
    inner join gpu_op on launch.event_id = gpu_op.event_id
    inner join timed on launch.event_id = timed.event_id
    where launch.runtime_id is not null
    group by launch.runtime_id, device_of(gpu_op.device), stream_of(gpu_op.stream)
),

-- The same calls, numbered in order of the calls.
numbered_call as (
    select
        *,
        row_number() over (partition by device, stream order by call_ns, runtime_id) as call_count
    from launch_call
),

-- The same calls, numbered in order of the work's starts, on streams that can be full.
started_work as (
    select
        device,
        stream,
        start_ns,
        row_number() over (partition by device, stream order by start_ns, runtime_id) as start_count
    from launch_call
    qualify count(*) over (partition by device, stream) > most_pending()
),

-- Launches with a full queue of pending launches.
full_queue_call as (
    select distinct numbered_call.runtime_id
    from numbered_call
    asof left join started_work
        on
            numbered_call.device = started_work.device
            and numbered_call.stream = started_work.stream
            and numbered_call.call_ns >= started_work.start_ns
    where
        numbered_call.call_count > most_pending()
        and numbered_call.call_count - coalesce(started_work.start_count, 0) > most_pending()
    union
    -- The profiler reports a queue full by bytes, with fewer launches pending.
    select call.event_id
    from event
    asof inner join (
        select * from timed
        where category in ('cuda_runtime', 'cuda_driver') and event_id in (select runtime_id from launch)
    ) as call
        on event.start_ns >= call.start_ns
    where event.category = 'overhead' and is_full_queue(event.name) and event.start_ns < call.end_ns
),

-- Calls that return when their copy is done, with the first copy of each call.
blocking_copy as (
    select
        launch.runtime_id,
        min(launch.event_id) as work_id
    from launch
    inner join event on launch.event_id = event.event_id
    inner join timed on launch.runtime_id = timed.event_id
    left join name_class on timed.class_id = name_class.class_id
    where
        event.category = 'gpu_memcpy'
        and (is_pageable_copy(event.name) or coalesce(name_class.is_sync, false))
        and not is_copy_without_cpu(event.name)
    group by launch.runtime_id
),

-- All waiting calls.
waiting_call as (
    select
        timed.event_id,
        case
            when blocking_copy.runtime_id is not null then 'copy'
            when coalesce(name_class.is_sync, false) then 'sync'
            else 'full_queue'
        end as kind,
        blocking_copy.work_id
    from timed
    left join name_class on timed.class_id = name_class.class_id
    left join blocking_copy on timed.event_id = blocking_copy.runtime_id
    left join full_queue_call on timed.event_id = full_queue_call.runtime_id
    where
        timed.category in ('cuda_runtime', 'cuda_driver')
        and (
            coalesce(name_class.is_sync, false)
            or blocking_copy.runtime_id is not null
            or full_queue_call.runtime_id is not null
        )
),

-- Outermost waiting calls.
outermost_call as (
    select
        waiting_call.*,
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns
    from waiting_call
    inner join nesting on waiting_call.event_id = nesting.event_id
    where nesting.end_ns > nesting.start_ns
    qualify is_outermost(nesting.start_ns, nesting.end_ns, nesting.track_id, nesting.depth)
)

select
    outermost_call.event_id,
    outermost_call.track_id,
    outermost_call.kind,
    outermost_call.start_ns,
    outermost_call.end_ns,
    (
        coalesce(until.before_ns + least(outermost_call.end_ns, until.end_ns) - until.start_ns, 0)
        - coalesce(since.before_ns + least(outermost_call.start_ns, since.end_ns) - since.start_ns, 0)
    )::bigint as waited_ns,
    outermost_call.work_id
from outermost_call
asof left join busy_stretch as since on outermost_call.start_ns >= since.start_ns
asof left join busy_stretch as until on outermost_call.end_ns >= until.start_ns
order by outermost_call.event_id
