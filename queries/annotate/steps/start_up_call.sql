-- Start-up work, done only when a program starts: compilation, first calls, graph capture and allocator growth.
--
-- Kinds:
--   compilation    torch.compile traces and compiles: the outermost spans marked `(dynamo_timed)`,
--   first_call     the first launch of a kernel, and the first call of any other runtime function, if the call takes
--                  over `first_call_ns()` without the profiler's own work, and waits for no other work. First calls set
--                  up the GPU, and code is loaded at first use (CUDA programming guide, "Initialization" and "Lazy
--                  Loading"; HIP does the same),
--   graph_capture  from the begin to the end of a stream capture on one thread,
--   allocation     calls that ask the driver for memory.
-- Spans of one kind may contain spans of another kind.
--
-- :reads event, nesting, launch, gpu_wait
-- :only_with event where category in ('cuda_runtime', 'cuda_driver', 'cpu_op', 'user_annotation')
-- :column event_id BIGINT   the call, the compilation span, or the call that begins the capture
-- :column track_id BIGINT   thread
-- :column start_ns BIGINT   start
-- :column end_ns BIGINT     end
-- :column kind VARCHAR      compilation, first_call, graph_capture or allocation
with runtime_call as (
    select
        nesting.event_id,
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns,
        event.name
    from event
    inner join nesting on event.event_id = nesting.event_id
    where event.category in ('cuda_runtime', 'cuda_driver')
),

-- The first launch of each kernel.
first_launch as (
    select launch.runtime_id as event_id
    from launch
    inner join event on launch.event_id = event.event_id
    where event.category = 'kernel' and launch.launch_start_ns is not null
    qualify row_number() over (partition by event.name order by launch.launch_start_ns, event.event_id) = 1
),

-- The first call of each runtime function, except launches.
first_of_function as (
    select runtime_call.event_id
    from runtime_call
    anti join launch on runtime_call.event_id = launch.runtime_id
    qualify row_number() over (partition by runtime_call.name order by runtime_call.start_ns, runtime_call.event_id) = 1
),

first_call as (
    select event_id from first_launch
    union
    select event_id from first_of_function
),

-- The profiler's own work, assigned to the last call begun before it.
own_work as (
    select
        runtime_call.event_id,
        sum(least(event.start_ns + event.dur_ns, runtime_call.end_ns) - event.start_ns)::bigint as own_ns
    from event
    asof inner join runtime_call on event.start_ns >= runtime_call.start_ns
    where
        event.category = 'overhead'
        and event.dur_ns > 0
        and is_work_of_profiler(event.name)
        and event.start_ns < runtime_call.end_ns
    group by runtime_call.event_id
),

-- Calls that begin or end a graph capture, with the thread's next such call.
capture_border as (
    select
        *,
        lead(name) over in_thread as next_name,
        lead(end_ns) over in_thread as next_end_ns
    from runtime_call
    where is_capture_begin(name) or is_capture_end(name)
    window in_thread as (partition by track_id order by start_ns, event_id)
)

select
    nesting.event_id,
    nesting.track_id,
    nesting.start_ns,
    nesting.end_ns,
    'compilation' as kind
from event
inner join nesting on event.event_id = nesting.event_id
where event.category in ('cpu_op', 'user_annotation') and is_compile_mark(event.name)
qualify is_outermost(nesting.start_ns, nesting.end_ns, nesting.track_id, nesting.depth)
union all
select
    runtime_call.event_id,
    runtime_call.track_id,
    runtime_call.start_ns,
    runtime_call.end_ns,
    'first_call'
from runtime_call
inner join first_call on runtime_call.event_id = first_call.event_id
left join own_work on runtime_call.event_id = own_work.event_id
anti join gpu_wait on runtime_call.event_id = gpu_wait.event_id and gpu_wait.waited_ns > 0
where runtime_call.end_ns - runtime_call.start_ns - coalesce(own_work.own_ns, 0) > first_call_ns()
union all
select
    event_id,
    track_id,
    start_ns,
    next_end_ns,
    'graph_capture'
from capture_border
where is_capture_begin(name) and is_capture_end(next_name)
union all
select
    event_id,
    track_id,
    start_ns,
    end_ns,
    'allocation'
from runtime_call
where is_allocation_call(name)
order by event_id, kind
