-- Devices and streams, and the work on them. Tables and CTEs are named in quotes.

-- The number of a device; -1 stands for the one that events do not name.
create or replace macro device_of(device) as
coalesce(device, -1);

-- The number of a stream; -1 stands for the one that events do not name.
create or replace macro stream_of(stream) as
coalesce(stream, -1);

-- Whether a call takes the grid in threads, and so the trace has it in threads, too: HIP's calls that came from OpenCL
-- (HIP documentation, `hipExtModuleLaunchKernel`: "globalWorkSizeX: grid dimension X specified as work-items"). All
-- others take it in blocks.
create or replace macro grid_is_in_threads(call) as
call in ('hipExtModuleLaunchKernel', 'hipHccModuleLaunchKernel');

-- When work was launched that ends a gap, moved into the gap: the start of its call; the end of the gap when unknown.
create or replace macro launched_in_gap(gap_start_ns, gap_end_ns, launch_start_ns) as
greatest(gap_start_ns, least(gap_end_ns, coalesce(launch_start_ns, gap_end_ns)));

-- When that launch should have taken effect: at once if its call had returned before the gap began, else 50 us after it
-- returned, but not after the gap. `launched_ns` is the time of `launched_in_gap`.
create or replace macro launch_due_in_gap(gap_start_ns, gap_end_ns, launched_ns, returned_ns) as
case
    when returned_ns <= gap_start_ns then launched_ns
    else greatest(launched_ns, least(gap_end_ns, coalesce(returned_ns + launch_effect_ns(), gap_end_ns)))
end;

-- The mean of a value over work, weighted by how long each took; of work that takes no time, its plain mean. NULL
-- values do not count.
create or replace macro weighted_mean(measure, dur_ns) as
coalesce(
    sum(measure * dur_ns) / nullif(sum(dur_ns) filter (where measure is not null), 0), avg(measure)
);

-- Rows of `gpu_work`, each with its `key`: the class, name, short name, op, module, phase or category that it is
-- grouped by. `events` is 'event', where the names of ops are.
create or replace macro keyed_work(works, events, grouped_by) as table
    select
        work.rank,
        work.event_id,
        work.dur_ns,
        work.busy_ns,
        work.class,
        case grouped_by
            when 'class' then work.class
            when 'name' then work.name
            when 'short_name' then work.short_name
            when 'op' then op.name
            when 'module' then work.module_path
            when 'phase' then work.phase
            when 'category' then work.category
        end as key
    from query_table(works) as work
    left join query_table(events) as op on work.rank = op.rank and work.op_id = op.event_id and grouped_by = 'op';

-- Stretches of time in which the same copies run, on each device and of each kind: `copy_count` of them, and the sum of
-- their `bytes_per_s`; NULL where that of one is not known. `event_id` is the first copy that starts at the start; NULL
-- where the stretch begins with an end. Where none runs there is a stretch, too. `copies` are rows of `gpu_copy`.
create or replace macro copy_stretches(copies) as table
    with edge_of_copy as (
        select
            rank,
            device,
            kind,
            unnest([start_ns, end_ns]) as at_ns,
            unnest([1, -1]) as change,
            bytes_per_s,
            unnest([event_id, null]) as event_id
        from query_table(copies)
        where end_ns > start_ns
    ),

    change_of_copies as (
        select
            rank,
            device,
            kind,
            at_ns,
            sum(change)::bigint as copy_change,
            coalesce(sum(change) filter (where bytes_per_s is null), 0)::bigint as unknown_change,
            coalesce(sum(change * bytes_per_s), 0)::bigint as bytes_per_s_change,
            min(event_id) as event_id
        from edge_of_copy
        group by rank, device, kind, at_ns
    )

    select
        rank,
        device,
        kind,
        at_ns as start_ns,
        lead(at_ns) over so_far as end_ns,
        sum(copy_change) over so_far as copy_count,
        case when sum(unknown_change) over so_far = 0 then sum(bytes_per_s_change) over so_far end as bytes_per_s,
        event_id
    from change_of_copies
    window so_far as (partition by rank, device, kind order by at_ns rows unbounded preceding);

-- Whether an event of the category `overhead` is work of the profiler itself, which the program does not do without it:
-- buffers that it asks for or writes out, and instrumentation with its resources. Names: `overheadKindString` in
-- kineto/libkineto/src/CuptiActivity.cpp; CUPTI, `CUpti_ActivityOverheadKind`. The others (`Driver Compiler`,
-- `Runtime Triggered Module Loading`, `Lazy Function Loading`) are first calls, and `Command Buffer Full` is a full
-- queue.
create or replace macro is_work_of_profiler(name) as
regexp_matches(name, '(?i)^(CUPTI[ _])?(Activity Buffer Request|Buffer Flush|Instrumentation|Resource)$');

-- Whether an event of the category `overhead` says that a launch waits, as the queue of the device has no room.
create or replace macro is_full_queue(name) as
regexp_matches(name, '(?i)^(CUPTI[ _])?Command Buffer Full$');
