-- Problems of a trace: graph capture, compilation, first calls, lost events, and wrong times.
--
--   graph_capture    launch calls during a stream capture on the same thread, which launch nothing; share of all launch
--                    calls
--   compilation      time of torch.compile for tracing and compiling: the spans marked `(dynamo_timed)`; share of the
--                    time from the first step to the last
--   first_calls      the first launch of a kernel, and the first call of any other runtime function, if the call takes
--                    over a millisecond (a hundred times a usual launch) and does not wait for other work. The first
--                    calls set up the GPU, and code is loaded on first use (CUDA programming guide, "Initialization"
--                    and "Lazy Loading"; the same holds for HIP). Share of the time from the first step to the last
--   graph_gaps       gaps between the nodes of one replayed CUDA graph. The profiler traces the nodes one by one, which
--                    costs time between the nodes (Nsight Systems User Guide, `--cuda-graph-trace`: tracing nodes adds
--                    overhead), so an unprofiled run has shorter gaps. Share of the time from the first step to the
--                    last
--   lost_work        other launch calls without GPU work in the file; share of all launch calls. Only if the file has
--                    GPU work
--   lost_launches    in an incomplete or damaged file: calls of ops without GPU work, if the call of the same name and
--                    number in another step has GPU work; share of all calls that have or should have GPU work.
--                    Profilers write launches and GPU work after the ops, so an incomplete file lacks them first
--   zero_time        events with ts = dur = 0, which have no time; share of all complete events
--   far_time         events over ten days from the others, which are ignored; share of all complete events
--   long_time        events longer than ten days, or than a sum of three years allows, which are ignored; share of all
--                    complete events
--   ends_first       events that end before they start, which are ignored; share of all complete events
--   before_launch    GPU work that starts before its own launch, which is ignored; share of all complete events
--   other_clock      events of a device whose clock differs from the CPU's, which are shifted; share of all complete
--                    events
--   overlap          GPU work that overlaps the next work of its stream, which is cut at the overlap; share of all
--                    complete events
--
-- :param rank BIGINT = NULL       only this rank
-- :reads gpu_event, cpu_event, event, event_args, step, rank_info, loading_call
-- :column rank RANK
-- :column caveat VARCHAR          graph_capture, compilation, first_calls, graph_gaps, lost_work, lost_launches, or a
--                                 rule of times
-- :column count BIGINT            number of calls, spans or events
-- :column time_ns BIGINT          sum of the durations; NULL for calls without execution. For wrong times: the time in
--                                 the file that is left out of all results
-- :column share_pct DOUBLE        share, see above; at most 100, even for several threads or time outside the steps;
--                                 NULL if the steps take no time
-- :column event_id BIGINT         the longest of these calls, spans or events
with observed_time as (
    select
        rank,
        max(end_ns) - min(start_ns) as window_ns
    from step
    where is_asked($rank, rank)
    group by rank
),

-- one row per call that launches a kernel, or begins or ends a stream capture
call as (
    select
        rank,
        event_id,
        track_id,
        start_ns,
        end_ns,
        name,
        is_kernel_launch(name) as is_launch
    from cpu_event
    where
        category in ('cuda_runtime', 'cuda_driver')
        and is_asked($rank, rank)
        and (is_kernel_launch(name) or is_capture_begin(name) or is_capture_end(name))
),

-- One row per launching call; `is_captured` if the latest border of a capture on the thread was its beginning.
launching_call as (
    select
        launch_call.rank,
        launch_call.event_id,
        launch_call.end_ns - launch_call.start_ns as dur_ns,
        coalesce(is_capture_begin(border.name), false) as is_captured,
        launched.runtime_id is not null as has_work
    from call as launch_call
    left join (select distinct rank, runtime_id from gpu_event) as launched
        on launch_call.rank = launched.rank and launch_call.event_id = launched.runtime_id
    asof left join (select * from call where not is_launch) as border
        on
            launch_call.rank = border.rank
            and launch_call.track_id = border.track_id
            and launch_call.start_ns >= border.start_ns
    where launch_call.is_launch
),

-- Only in incomplete files: calls of ops in steps, if the call of the same number launches work in any step.
launching_op as (
    select
        numbered.*,
        launched.op_id is not null as has_work
    from (
        select
            cpu_event.rank,
            cpu_event.event_id,
            cpu_event.name,
            cpu_event.dur_ns,
            row_number() over (
                partition by cpu_event.rank, cpu_event.name, cpu_event.step
                order by cpu_event.start_ns, cpu_event.event_id
            ) as number
        from cpu_event
        inner join rank_info on cpu_event.rank = rank_info.rank and rank_info.damage is not null
        where cpu_event.category = 'cpu_op' and cpu_event.step is not null and is_asked($rank, cpu_event.rank)
    ) as numbered
    left join (select distinct rank, op_id from gpu_event) as launched
        on numbered.rank = launched.rank and numbered.event_id = launched.op_id
    qualify bool_or(launched.op_id is not null) over (partition by numbered.rank, numbered.name, numbered.number)
),

-- one row per outermost span of compilation
compilation as (
    select
        rank,
        event_id,
        start_ns,
        end_ns
    from cpu_event
    where
        category in ('cpu_op', 'user_annotation')
        and is_compile_mark(name)
        and is_asked($rank, rank)
    qualify is_outermost(start_ns, end_ns, (rank, track_id), depth)
),

-- One row per node of a replayed graph after the first node: the idle time of the device before the node.
graph_gap as (
    select
        rank,
        event_id,
        greatest(
            start_ns - max(end_ns) over (
                partition by rank, runtime_id, device
                order by start_ns, event_id
                rows between unbounded preceding and 1 preceding
            ),
            0
        ) as gap_ns
    from gpu_event
    where kernel_count > 1 and is_asked($rank, rank)
),

-- Events with times changed by the import, or ending before their start, with the rule and the duration in the file.
changed_time as (
    select
        event.rank,
        event.event_id,
        event.dur_ns,
        coalesce(json_extract_string(event_args.fields, '$.time_rule'), 'ends_first') as caveat,
        try_cast(json_extract_string(event_args.fields, '$.dur') as double) * 1000 as given_dur_ns
    from event_args
    inner join event on event_args.rank = event.rank and event_args.event_id = event.event_id
    where
        is_asked($rank, event_args.rank)
        and event.ph in ('X', 'B')
        and (contains(event_args.fields, '"time_rule"') or event.dur_ns is null)
        and json_valid(event_args.fields)
),

-- one row per rank and caveat
rank_caveat as (
    select
        rank,
        'graph_capture' as caveat,
        count(*) filter (where is_captured and not has_work) as count,
        null::bigint as time_ns,
        100.0 * count(*) filter (where is_captured and not has_work) / count(*) as share_pct,
        arg_max(event_id, (dur_ns, -event_id)) filter (where is_captured and not has_work) as event_id
    from launching_call
    group by rank
    union all
    select
        rank,
        'lost_work',
        count(*) filter (where not is_captured and not has_work),
        null,
        100.0 * count(*) filter (where not is_captured and not has_work) / count(*),
        arg_max(event_id, (dur_ns, -event_id)) filter (where not is_captured and not has_work)
    from launching_call
    where rank in (select rank from gpu_event)
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
        compilation.rank,
        'compilation',
        count(*),
        sum(compilation.end_ns - compilation.start_ns)::bigint,
        100.0 * sum(compilation.end_ns - compilation.start_ns) / nullif(any_value(observed_time.window_ns), 0),
        arg_max(compilation.event_id, (compilation.end_ns - compilation.start_ns, -compilation.event_id))
    from compilation
    left join observed_time on compilation.rank = observed_time.rank
    group by compilation.rank
    union all
    select
        loading_call.rank,
        'first_calls',
        count(*),
        sum(loading_call.launch_dur_ns)::bigint,
        100.0 * sum(loading_call.launch_dur_ns) / nullif(any_value(observed_time.window_ns), 0),
        arg_max(loading_call.runtime_id, (loading_call.launch_dur_ns, -loading_call.runtime_id))
    from loading_call
    left join observed_time on loading_call.rank = observed_time.rank
    group by loading_call.rank
    union all
    select
        graph_gap.rank,
        'graph_gaps',
        count(*) filter (where graph_gap.gap_ns > 0),
        sum(graph_gap.gap_ns)::bigint,
        100.0 * sum(graph_gap.gap_ns) / nullif(any_value(observed_time.window_ns), 0),
        arg_max(graph_gap.event_id, (graph_gap.gap_ns, -graph_gap.event_id))
    from graph_gap
    left join observed_time on graph_gap.rank = observed_time.rank
    group by graph_gap.rank
    union all
    select
        changed_time.rank,
        changed_time.caveat,
        count(*),
        -- a duration beyond 64 bits adds no time; the sum is cut at 64 bits
        least(
            sum(greatest(try_cast(round(changed_time.given_dur_ns) as bigint)::hugeint - coalesce(dur_ns, 0), 0)),
            9223372036854775807
        )::bigint,
        100.0 * count(*) / any_value(complete_event.count),
        arg_max(changed_time.event_id, (changed_time.given_dur_ns, -changed_time.event_id))
    from changed_time
    inner join (
        select
            rank,
            count(*) as count
        from event
        where ph in ('X', 'B')
        group by rank
    ) as complete_event on changed_time.rank = complete_event.rank
    where changed_time.caveat != 'ends_first' or changed_time.given_dur_ns < 0
    group by changed_time.rank, changed_time.caveat
)

select
    rank,
    caveat,
    count,
    time_ns,
    case when share_pct > 100 then 100.0 else share_pct end as share_pct,
    event_id
from rank_caveat
where count > 0
order by rank, caveat
