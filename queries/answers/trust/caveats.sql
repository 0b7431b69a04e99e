-- What may keep a trace from telling anything about training: graphs that were captured and not run, compilation, first
-- calls that set up the GPU or load code, launches whose work is not in the file, launches that are not.
--
--   graph_capture    launch calls between the begin and the end of a stream capture on one thread, which launch
--                    nothing; their share of all launch calls
--   compilation      time in which torch.compile traces and compiles, the spans that it marks `(dynamo_timed)`; the
--                    share of the time from the first step to the last
--   first_calls      the first launch of a kernel, and the first call of any other function of the runtime, if it
--                    takes over a millisecond, a hundred times what a launch takes, and waits for no other work: the
--                    first calls set up the GPU, and code is loaded when it is first used (CUDA programming guide,
--                    "Initialization" and "Lazy Loading"; HIP likewise); the share of the time from the first step to
--                    the last
--   lost_work        other launch calls without any GPU work in the file; their share of all launch calls. Only if the
--                    file has GPU work.
--   lost_launches    in a file that is cut off or damaged: calls of ops without GPU work although the call of the same
--                    name and number in another step has some; their share of all calls that have or should have.
--                    Profilers write launches and GPU work behind the ops, and a file that is cut off lacks them first
--
-- :param rank BIGINT = NULL       only this rank
-- :reads event, nesting, launch, gpu_wait, step, label, rank_info
-- :column rank BIGINT             process rank
-- :column caveat VARCHAR          graph_capture, compilation, first_calls, lost_work or lost_launches
-- :column count BIGINT            calls or spans
-- :column time_ns BIGINT          their time; NULL for calls that do not run
-- :column share_pct DOUBLE        share, see above; at most 100, also of several threads or around the steps; NULL
--     if the steps take no time
-- :column event_id BIGINT         the longest of them
with observed as (
    select
        rank,
        max(end_ns) - min(start_ns) as window_ns
    from step
    where is_asked($rank, rank)
    group by rank
),

call as (
    select
        nesting.rank,
        nesting.event_id,
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns,
        event.name,
        regexp_matches(event.name, 'Launch(Cooperative)?Kernel') as is_launch
    from event
    inner join nesting on event.rank = nesting.rank and event.event_id = nesting.event_id
    where
        event.category in ('cuda_runtime', 'cuda_driver')
        and is_asked($rank, event.rank)
        and regexp_matches(event.name, 'Launch(Cooperative)?Kernel|Stream(Begin|End)Capture')
),

-- Calls that launch, and whether one that began to capture a graph came last before on their thread.
launching as (
    select
        launch_call.rank,
        launch_call.event_id,
        launch_call.end_ns - launch_call.start_ns as dur_ns,
        coalesce(contains(border.name, 'BeginCapture'), false) as is_captured,
        launched.runtime_id is not null as has_work
    from call as launch_call
    left join (select distinct rank, runtime_id from launch) as launched
        on launch_call.rank = launched.rank and launch_call.event_id = launched.runtime_id
    asof left join (select * from call where not is_launch) as border
        on
            launch_call.rank = border.rank
            and launch_call.track_id = border.track_id
            and launch_call.start_ns >= border.start_ns
    where launch_call.is_launch
),

-- In files that lack events: calls of ops in steps of which the call of the same number launches work in some step.
launching_op as (
    select
        numbered.*,
        launched.op_id is not null as has_work
    from (
        select
            event.rank,
            event.event_id,
            event.name,
            nesting.end_ns - nesting.start_ns as dur_ns,
            row_number() over (
                partition by event.rank, event.name, label.step order by nesting.start_ns, event.event_id
            ) as number
        from event
        inner join nesting on event.rank = nesting.rank and event.event_id = nesting.event_id
        inner join label on event.rank = label.rank and event.event_id = label.event_id and label.step is not null
        inner join rank_info on event.rank = rank_info.rank and rank_info.damage is not null
        where event.category = 'cpu_op' and is_asked($rank, event.rank)
    ) as numbered
    left join (select distinct rank, op_id from launch) as launched
        on numbered.rank = launched.rank and numbered.event_id = launched.op_id
    qualify bool_or(launched.op_id is not null) over (partition by numbered.rank, numbered.name, numbered.number)
),

compiled as (
    select
        nesting.rank,
        nesting.event_id,
        nesting.start_ns,
        nesting.end_ns
    from event
    inner join nesting on event.rank = nesting.rank and event.event_id = nesting.event_id
    where
        event.category in ('cpu_op', 'user_annotation')
        and ends_with(event.name, '(dynamo_timed)')
        and is_asked($rank, event.rank)
    qualify is_outermost(nesting.start_ns, nesting.end_ns, (nesting.rank, nesting.track_id), nesting.depth)
),

first_call as (
    select
        launch.rank,
        launch.runtime_id,
        launch.launch_dur_ns
    from launch
    inner join event on launch.rank = event.rank and launch.event_id = event.event_id
    where
        event.category = 'kernel'
        and launch.launch_start_ns is not null
        and is_asked($rank, launch.rank)
    qualify row_number() over (partition by launch.rank, event.name order by launch.launch_start_ns, event.event_id) = 1
),

first_of_function as (
    select
        nesting.rank,
        nesting.event_id as runtime_id,
        nesting.end_ns - nesting.start_ns as launch_dur_ns
    from event
    inner join nesting on event.rank = nesting.rank and event.event_id = nesting.event_id
    anti join launch on event.rank = launch.rank and event.event_id = launch.runtime_id
    where event.category in ('cuda_runtime', 'cuda_driver') and is_asked($rank, event.rank)
    qualify row_number() over (partition by event.rank, event.name order by nesting.start_ns, event.event_id) = 1
),

loading as (
    select distinct
        first.rank,
        first.runtime_id,
        first.launch_dur_ns
    from (
        select * from first_call
        union all
        select * from first_of_function
    ) as first
    anti join gpu_wait
        on first.rank = gpu_wait.rank and first.runtime_id = gpu_wait.event_id and gpu_wait.waited_ns > 0
    where first.launch_dur_ns > first_call_ns()
),

found as (
    select
        rank,
        'graph_capture' as caveat,
        count(*) filter (where is_captured and not has_work) as count,
        null::bigint as time_ns,
        100.0 * count(*) filter (where is_captured and not has_work) / count(*) as share_pct,
        arg_max(event_id, (dur_ns, -event_id)) filter (where is_captured and not has_work) as event_id
    from launching
    group by rank
    union all
    select
        rank,
        'lost_work',
        count(*) filter (where not is_captured and not has_work),
        null,
        100.0 * count(*) filter (where not is_captured and not has_work) / count(*),
        arg_max(event_id, (dur_ns, -event_id)) filter (where not is_captured and not has_work)
    from launching
    where rank in (select rank from launch)
    group by rank
    union all
    select
        rank,
        'lost_launches',
        count(*) filter (where not has_work),
        null,
        100.0 * count(*) filter (where not has_work) / count(*),
        arg_max(event_id, (dur_ns, -event_id)) filter (where not has_work)
    from launching_op
    group by rank
    union all
    select
        compiled.rank,
        'compilation',
        count(*),
        sum(compiled.end_ns - compiled.start_ns)::bigint,
        100.0 * sum(compiled.end_ns - compiled.start_ns) / nullif(any_value(observed.window_ns), 0),
        arg_max(compiled.event_id, (compiled.end_ns - compiled.start_ns, -compiled.event_id))
    from compiled
    left join observed on compiled.rank = observed.rank
    group by compiled.rank
    union all
    select
        loading.rank,
        'first_calls',
        count(*),
        sum(loading.launch_dur_ns)::bigint,
        100.0 * sum(loading.launch_dur_ns) / nullif(any_value(observed.window_ns), 0),
        arg_max(loading.runtime_id, (loading.launch_dur_ns, -loading.runtime_id))
    from loading
    left join observed on loading.rank = observed.rank
    group by loading.rank
)

select
    rank,
    caveat,
    count,
    time_ns,
    case when share_pct > 100 then 100.0 else share_pct end as share_pct,
    event_id
from found
where count > 0
order by rank, caveat
