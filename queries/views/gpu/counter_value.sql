-- Hardware counters (`cuda_profiler_range`) of each profiled kernel, one row per value.
--
-- The profiler measures counters per kernel (`cuda_profiler_range`) and does not say which launch a kernel belongs to;
-- the times of the ranges are made up. `evidence` says how the launch was found: `correlation`; `kernel_time`, the
-- only kernel event of this name at that time; or `order_and_name`, if there are as many kernel launches as ranges and,
-- taken in order, ranges of one name are launched by one op in at least 90 % of the cases. Order alone is not believed.
--
-- :reads event, event_args, nesting, launch, label, model_op
-- :column rank BIGINT          process rank
-- :column event_id BIGINT      the profiled range
-- :column kernel VARCHAR       name of the kernel; `__missing__` where the profiler lost it
-- :column counter VARCHAR      name of the counter
-- :column value DOUBLE         its value
-- :column kernel_id BIGINT     the kernel's event; NULL when there is none
-- :column kernel_ns BIGINT     its duration; NULL when there is none
-- :column launch_id BIGINT     the launching call; NULL when unknown
-- :column op_id BIGINT         the op that launched it; NULL when unknown
-- :column op VARCHAR           its name; NULL when unknown
-- :column step BIGINT          training step; NULL when unknown
-- :column phase VARCHAR        phase; NULL when unknown
-- :column module_path VARCHAR  module; NULL when unknown
-- :column evidence VARCHAR     correlation, kernel_time or order_and_name; NULL when the launch is unknown
with profiled as (
    select
        event.rank,
        event.event_id,
        event.name,
        event.start_ns,
        event.end_ns,
        event.correlation,
        event.track_id,
        event_args.args,
        row_number() over (partition by event.rank order by event.start_ns, event.event_id) as place,
        count(*) over (partition by event.rank) as range_count
    from event
    inner join event_args on event.rank = event_args.rank and event.event_id = event_args.event_id
    where event.category = 'cuda_profiler_range'
),

kernel as (
    select
        rank,
        event_id,
        name,
        start_ns,
        end_ns,
        dur_ns,
        correlation
    from event
    where category = 'kernel' and dur_ns is not null and rank in (select rank from profiled)
),

api_call as (
    select
        rank,
        event_id,
        start_ns,
        correlation,
        regexp_matches(name, '^(cuda|cu|hip)\w*LaunchKernel') as is_launch
    from event
    where
        category in ('cuda_runtime', 'cuda_driver') and dur_ns is not null
        and rank in (select rank from profiled)
),

-- Ranges with the launch at the same place in the order of time.
by_place as (
    select
        profiled.rank,
        profiled.event_id,
        profiled.name,
        ordered_call.event_id as launch_id,
        op.name as op,
        count(*) over (partition by profiled.rank, profiled.name) as name_count,
        count(*) over (partition by profiled.rank, profiled.name, op.name) as pair_count
    from profiled
    inner join (
        select
            rank,
            event_id,
            row_number() over (partition by rank order by start_ns, event_id) as place,
            count(*) over (partition by rank) as call_count
        from api_call
        where is_launch
    ) as ordered_call
        on
            profiled.rank = ordered_call.rank
            and profiled.place = ordered_call.place
            and profiled.range_count = ordered_call.call_count
    inner join nesting on ordered_call.rank = nesting.rank and ordered_call.event_id = nesting.event_id
    left join event as op on nesting.rank = op.rank and nesting.op_id = op.event_id
),

-- Ranks in which the ranges of one name nearly always have the same op.
believed as (
    select rank
    from (
        select
            rank,
            name,
            any_value(name_count) as name_count,
            max(pair_count) as pair_count
        from by_place
        where name_count > 1 and name != '__missing__' and op is not null
        group by rank, name
    ) as most_common
    group by rank
    having 10 * sum(pair_count) >= 9 * sum(name_count)
),

-- How many kernels of its name run during a range: those that started before its end, less those that ended before its
-- start. Where it is one, it is the one that ended last of those that started.
begun as (
    select
        rank,
        name,
        start_ns,
        count(*) over so_far as kernel_count,
        max({'end_ns': end_ns, 'event_id': event_id}) over so_far as last_done
    from kernel
    where end_ns > start_ns
    window so_far as (partition by rank, name order by start_ns, event_id rows unbounded preceding)
),

by_time as (
    select
        profiled.rank,
        profiled.event_id,
        begun.last_done.event_id as kernel_id
    from profiled
    asof inner join begun
        on profiled.rank = begun.rank and profiled.name = begun.name and profiled.end_ns > begun.start_ns
    asof left join (
        select
            rank,
            name,
            end_ns,
            row_number() over (partition by rank, name order by end_ns, event_id) as kernel_count
        from kernel
        where end_ns > start_ns
    ) as done
        on profiled.rank = done.rank and profiled.name = done.name and profiled.start_ns >= done.end_ns
    where begun.kernel_count - coalesce(done.kernel_count, 0) = 1
),

by_correlation as (
    select
        profiled.rank,
        profiled.event_id,
        launched.kernel_id,
        calling.launch_id
    from profiled
    left join (
        select
            rank,
            correlation,
            min(event_id) as kernel_id
        from kernel
        group by rank, correlation
    ) as launched on profiled.rank = launched.rank and profiled.correlation = launched.correlation
    left join (
        select
            rank,
            correlation,
            min(event_id) as launch_id
        from api_call
        group by rank, correlation
    ) as calling on profiled.rank = calling.rank and profiled.correlation = calling.correlation
    where profiled.correlation > 0
),

matched as (
    select
        profiled.rank,
        profiled.event_id,
        profiled.name,
        profiled.args,
        coalesce(by_correlation.kernel_id, by_time.kernel_id) as kernel_id,
        coalesce(by_correlation.launch_id, launch.runtime_id, by_place.launch_id) as launch_id,
        case
            when by_correlation.launch_id is not null or by_correlation.kernel_id is not null then 'correlation'
            when by_time.kernel_id is not null then 'kernel_time'
            when by_place.launch_id is not null then 'order_and_name'
        end as evidence
    from profiled
    left join by_correlation
        on profiled.rank = by_correlation.rank and profiled.event_id = by_correlation.event_id
    left join by_time on profiled.rank = by_time.rank and profiled.event_id = by_time.event_id
    left join by_place
        on
            profiled.rank = by_place.rank
            and profiled.event_id = by_place.event_id
            and profiled.rank in (select rank from believed)
    left join launch
        on
            profiled.rank = launch.rank
            and coalesce(by_correlation.kernel_id, by_time.kernel_id) = launch.event_id
),

placed as (
    select
        matched.*,
        op.event_id as op_id,
        op.name as op,
        label.step,
        label.phase,
        model_op.path as module_path,
        kernel.dur_ns as kernel_ns
    from matched
    left join nesting on matched.rank = nesting.rank and matched.launch_id = nesting.event_id
    left join event as op on nesting.rank = op.rank and nesting.op_id = op.event_id
    left join label on matched.rank = label.rank and matched.launch_id = label.event_id
    left join model_op on label.rank = model_op.rank and label.module_id = model_op.module_id
    left join kernel on matched.rank = kernel.rank and matched.kernel_id = kernel.event_id
)

select
    rank,
    event_id,
    name as kernel,
    counter,
    value,
    kernel_id,
    kernel_ns,
    launch_id,
    op_id,
    op,
    step,
    phase,
    module_path,
    evidence
from (
    select
        placed.* exclude (args),
        -- Keys and values side by side: looking each value up by its key would read all of them each time.
        unnest(json_keys(placed.args)) as counter,
        try_cast(json_extract_string(unnest(json_extract(placed.args, '$.*')), '$') as double) as value
    from placed
)
where isfinite(value) and counter not in ('correlation', 'External id', 'device', 'context', 'stream')
