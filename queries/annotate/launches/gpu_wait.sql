-- Calls in which a thread of the host waits for the GPU.
--
-- Calls in which a thread waits for the GPU, and how long: the part of the call in which a device was busy.
--
-- A call of kind `sync` returns when the GPU is done. A `copy` from or to pageable memory, or by a call that blocks,
-- returns when that memory is staged or filled, and so waits for all earlier work of its stream (CUDA runtime API, "API
-- synchronization behavior"; HIP's `hipMemcpyWithStream` likewise). A launch into a `full_queue`, with 1000 launches
-- pending on its stream or where the profiler says so, waits until one of them starts. Of calls inside each other, the
-- outer one counts.
--
-- :reads timed, event, name_class, nesting, launch, gpu_op, gpu_busy
-- :only_with timed where category in ('cuda_runtime', 'cuda_driver')
-- :column event_id BIGINT   the call
-- :column track_id BIGINT   the thread
-- :column kind VARCHAR      sync, copy (of pageable memory) or full_queue (a launch with 1000 pending on its stream)
-- :column start_ns BIGINT   start of the call
-- :column end_ns BIGINT     its end
-- :column waited_ns BIGINT  of it, some device was busy
-- :column work_id BIGINT    the copy that it waits for; NULL for other kinds
with busy as (
    -- Stretches in which some device is busy, with the busy time before each.
    select
        start_ns,
        end_ns,
        sum(end_ns - start_ns) over (order by start_ns) - (end_ns - start_ns) as before_ns
    from merged('gpu_busy', null)
),

-- Calls that launch, by stream, with the start of the first work of each.
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

-- The same, numbered in order of the calls.
numbered_call as (
    select
        *,
        row_number() over (partition by device, stream order by call_ns, runtime_id) as call_count
    from launch_call
),

-- The same, numbered in order of the starts of the work, on streams that can be full.
started_work as (
    select
        device,
        stream,
        start_ns,
        row_number() over (partition by device, stream order by start_ns, runtime_id) as start_count
    from launch_call
    qualify count(*) over (partition by device, stream) > most_pending()
),

-- Launches that find as many others pending as a queue holds.
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
    -- the profiler says so: full by bytes, with fewer launches pending
    select call.event_id
    from event
    asof inner join (
        select * from timed
        where category in ('cuda_runtime', 'cuda_driver') and event_id in (select runtime_id from launch)
    ) as call
        on event.start_ns >= call.start_ns
    where event.category = 'overhead' and is_full_queue(event.name) and event.start_ns < call.end_ns
),

-- Calls that return when their copy is done, each with the first of its copies.
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
        and (contains(event.name, 'Pageable') or coalesce(name_class.is_sync, false))
        and not regexp_matches(event.name, '(?i)DtoD|DeviceToDevice|Device -> Device')
    group by launch.runtime_id
),

-- All calls that wait.
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

-- Waiting calls that stand in no other.
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
asof left join busy as since on outermost_call.start_ns >= since.start_ns
asof left join busy as until on outermost_call.end_ns >= until.start_ns
order by outermost_call.event_id
