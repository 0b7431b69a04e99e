-- Devices and streams, and the work on them. Pass names of tables and CTEs in quotes.

-- Number of a device; -1 if the event names no device.
create or replace macro device_of(device) as
coalesce(device, -1);

-- Number of a stream; -1 if the event names no stream.
create or replace macro stream_of(stream) as
coalesce(stream, -1);

-- Whether a call takes the grid in threads; the trace then also has the grid in threads. HIP's calls with an OpenCL
-- origin do (HIP documentation, `hipExtModuleLaunchKernel`: "globalWorkSizeX: grid dimension X specified as
-- work-items"). All other calls take the grid in blocks.
create or replace macro grid_is_in_threads(call) as
call in ('hipExtModuleLaunchKernel', 'hipHccModuleLaunchKernel');

-- Launch time of the work at the end of a gap, clamped to the gap: the start of the call, or the end of the gap if the
-- call is unknown.
create or replace macro launched_in_gap(gap_start_ns, gap_end_ns, launch_start_ns) as
greatest(gap_start_ns, least(gap_end_ns, coalesce(launch_start_ns, gap_end_ns)));

-- Time at which the launch should have taken effect. If the call returned before the gap began, the launch takes effect
-- at once. Otherwise, it takes effect 50 us after the call returned, but no later than the end of the gap.
-- `launched_ns` is the result of `launched_in_gap`.
create or replace macro launch_due_in_gap(gap_start_ns, gap_end_ns, launched_ns, returned_ns) as
case
    when returned_ns <= gap_start_ns then launched_ns
    else greatest(launched_ns, least(gap_end_ns, coalesce(returned_ns + launch_effect_ns(), gap_end_ns)))
end;

-- Mean of a value over work, weighted by duration. If all durations are 0, the plain mean. NULL values do not count.
create or replace macro weighted_mean(measure, dur_ns) as
coalesce(
    sum(measure * dur_ns) / nullif(sum(dur_ns) filter (where measure is not null), 0), avg(measure)
);

-- Rows of `gpu_event`, each with a grouping `key`: the class, name, short name, op, module, phase or category. `events`
-- is 'event', the table with op names.
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

-- Stretches of time with a constant set of running copies, per device and kind of copy. `copy_count` is the number of
-- running copies, and may be 0. `bytes_per_s` is the sum of their speeds; NULL if the speed of any copy is unknown.
-- `event_id` is the first copy starting at the stretch's start; NULL if no copy starts there. `copies` are rows of
-- `gpu_copy`.
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

-- Whether an event of the category `overhead` is the profiler's own work, absent from an unprofiled run: requests and
-- flushes of buffers, and instrumentation with its resources. Names: `overheadKindString` in
-- kineto/libkineto/src/CuptiActivity.cpp; CUPTI, `CUpti_ActivityOverheadKind`. Other names are not profiler work:
-- `Driver Compiler`, `Runtime Triggered Module Loading` and `Lazy Function Loading` are first calls, and `Command
-- Buffer Full` is a full queue.
create or replace macro is_work_of_profiler(name) as
regexp_matches(name, '(?i)^(CUPTI[ _])?(Activity Buffer Request|Buffer Flush|Instrumentation|Resource)$');

-- Whether an event of the category `overhead` is a launch waiting for room in the device's queue.
create or replace macro is_full_queue(name) as
regexp_matches(name, '(?i)^(CUPTI[ _])?Command Buffer Full$');

-- Device named by an op, if PyTorch's profiler does not record work on the device: Apple's MPS (native_functions.yaml:
-- `_mps_convolution`, `_lstm_mps`; Instruments shows MPS kernels), and devices with their own profilers (torch_npu,
-- Gaudi, PyTorch/XLA). NULL for other devices.
create or replace macro unrecorded_device(op_name) as
case
    when regexp_matches(op_name, '(^|::)_?mps_|_mps(_|$)') then 'MPS'
    when regexp_matches(op_name, '^_?npu::') then 'NPU'
    when regexp_matches(op_name, '^_?hpu::') then 'HPU'
    when regexp_matches(op_name, '^_?(xla|torch_xla)::') then 'XLA'
end;

-- Whether a process name is an XLA plane. Files with XLA planes come from JAX or TensorFlow, not from PyTorch's
-- profiler (kHostThreadsPlaneName and the constants next to it in xla/tsl/profiler/utils/xplane_schema.h).
create or replace macro is_plane_of_xla(process_name) as
regexp_matches(process_name, '(^|\s)/(host|device):');

-- Whether a process is the host of a recorder of chosen spans: XLA records the TraceMes in its own code, and IBM's
-- aiu-trace-analyzer (src/aiu_trace_analyzer/pipeline/tb_refinement.py) the jobs that a host hands to its device.
create or replace macro is_host_of_spans(process_name) as
is_plane_of_xla(process_name) or regexp_matches(process_name, '(?i)^Host\d+$');

-- A share in percent that rounding took over 100; NULL stays NULL, other than with `least`.
create or replace macro at_most_all(share_pct) as case when share_pct > 100 then 100.0 else share_pct end;
