-- Hardware counters (`cuda_profiler_range`) of each profiled kernel, one row per value.
--
-- The profiler measures counters per kernel without the launch of the kernel, and the times of the ranges are
-- artificial. `evidence` is the method for finding the launch:
--
--   correlation     a shared correlation number
--   kernel_time     the only kernel event of this name at that time
--   order_and_name  there are as many kernel launches as ranges, and in order, ranges of one name have the same
--                   launching op in at least 90 % of the cases. Order alone is not enough
--
-- :reads event, event_args, cpu_event, gpu_event
-- :column rank RANK
-- :column event_id BIGINT      the profiled range
-- :column kernel VARCHAR       name of the kernel; `__missing__` if the profiler lost the name
-- :column counter VARCHAR      name of the counter
-- :column value DOUBLE         value of the counter
-- :column kernel_id BIGINT     the kernel's event; NULL without an event
-- :column kernel_ns BIGINT     duration of the kernel; NULL without an event
-- :column launch_id BIGINT     the launching call; NULL if unknown
-- :column op_id BIGINT         op around the launch; NULL if unknown
-- :column op VARCHAR           name of the op; NULL if unknown
-- :column step STEP            NULL if unknown
-- :column phase PHASE          NULL if unknown
-- :column module_path VARCHAR  module; NULL if unknown
-- :column evidence VARCHAR     correlation, kernel_time or order_and_name; NULL when the launch is unknown

-- one row per profiled range, with its number on the rank
with profiled_range as (
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

-- one row per kernel of a rank with profiled ranges
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
    where category = 'kernel' and dur_ns is not null and rank in (select rank from profiled_range)
),

-- one row per runtime call of a rank with profiled ranges
api_call as (
    select
        rank,
        event_id,
        start_ns,
        correlation,
        is_kernel_launch(name) as is_launch
    from event
    where
        category in ('cuda_runtime', 'cuda_driver') and dur_ns is not null
        and rank in (select rank from profiled_range)
),

-- Ranges, with the launch of the same number in the order of time.
match_by_place as (
    select
        profiled_range.rank,
        profiled_range.event_id,
        profiled_range.name,
        ordered_call.event_id as launch_id,
        op.name as op,
        count(*) over (partition by profiled_range.rank, profiled_range.name) as name_count,
        count(*) over (partition by profiled_range.rank, profiled_range.name, op.name) as pair_count
    from profiled_range
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
            profiled_range.rank = ordered_call.rank
            and profiled_range.place = ordered_call.place
            and profiled_range.range_count = ordered_call.call_count
    inner join cpu_event as call on ordered_call.rank = call.rank and ordered_call.event_id = call.event_id
    left join cpu_event as op on call.rank = op.rank and call.op_id = op.event_id
),

-- Ranks on which ranges of one name nearly always have the same op.
rank_in_order as (
    select rank
    from (
        select
            rank,
            name,
            any_value(name_count) as name_count,
            max(pair_count) as pair_count
        from match_by_place
        where name_count > 1 and name != '__missing__' and op is not null
        group by rank, name
    ) as most_common
    group by rank
    having 10 * sum(pair_count) >= 9 * sum(name_count)
),

-- Number of kernels of the same name running in a range: kernels started before its end, minus kernels ended before its
-- start. If exactly one kernel runs, use the kernel with the latest end among those already started.
started_kernel as (
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

-- one row per range with exactly one running kernel of its name
match_by_time as (
    select
        profiled_range.rank,
        profiled_range.event_id,
        started_kernel.last_done.event_id as kernel_id
    from profiled_range
    asof inner join started_kernel
        on
            profiled_range.rank = started_kernel.rank
            and profiled_range.name = started_kernel.name
            and profiled_range.end_ns > started_kernel.start_ns
    asof left join (
        select
            rank,
            name,
            end_ns,
            row_number() over (partition by rank, name order by end_ns, event_id) as kernel_count
        from kernel
        where end_ns > start_ns
    ) as done
        on
            profiled_range.rank = done.rank
            and profiled_range.name = done.name
            and profiled_range.start_ns >= done.end_ns
    where started_kernel.kernel_count - coalesce(done.kernel_count, 0) = 1
),

-- one row per range with a correlation number, and the kernel and launch of this number
match_by_correlation as (
    select
        profiled_range.rank,
        profiled_range.event_id,
        launched.kernel_id,
        calling.launch_id
    from profiled_range
    left join (
        select
            rank,
            correlation,
            min(event_id) as kernel_id
        from kernel
        group by rank, correlation
    ) as launched on profiled_range.rank = launched.rank and profiled_range.correlation = launched.correlation
    left join (
        select
            rank,
            correlation,
            min(event_id) as launch_id
        from api_call
        group by rank, correlation
    ) as calling on profiled_range.rank = calling.rank and profiled_range.correlation = calling.correlation
    where profiled_range.correlation > 0
),

-- one row per range, with its kernel, launch and evidence
matched_range as (
    select
        profiled_range.rank,
        profiled_range.event_id,
        profiled_range.name,
        profiled_range.args,
        coalesce(match_by_correlation.kernel_id, match_by_time.kernel_id) as kernel_id,
        coalesce(match_by_correlation.launch_id, gpu_event.runtime_id, match_by_place.launch_id) as launch_id,
        case
            when match_by_correlation.launch_id is not null or match_by_correlation.kernel_id is not null
                then 'correlation'
            when match_by_time.kernel_id is not null then 'kernel_time'
            when match_by_place.launch_id is not null then 'order_and_name'
        end as evidence
    from profiled_range
    left join match_by_correlation
        on profiled_range.rank = match_by_correlation.rank and profiled_range.event_id = match_by_correlation.event_id
    left join match_by_time
        on profiled_range.rank = match_by_time.rank and profiled_range.event_id = match_by_time.event_id
    left join match_by_place
        on
            profiled_range.rank = match_by_place.rank
            and profiled_range.event_id = match_by_place.event_id
            and profiled_range.rank in (select rank from rank_in_order)
    left join gpu_event
        on
            profiled_range.rank = gpu_event.rank
            and coalesce(match_by_correlation.kernel_id, match_by_time.kernel_id) = gpu_event.event_id
),

-- one row per range, with the op, step, phase and module of its launch
attributed_range as (
    select
        matched_range.*,
        op.event_id as op_id,
        op.name as op,
        call.step,
        call.phase,
        call.module_path,
        kernel.dur_ns as kernel_ns
    from matched_range
    left join cpu_event as call on matched_range.rank = call.rank and matched_range.launch_id = call.event_id
    left join cpu_event as op on call.rank = op.rank and call.op_id = op.event_id
    left join kernel on matched_range.rank = kernel.rank and matched_range.kernel_id = kernel.event_id
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
        attributed_range.* exclude (args),
        -- Unnest keys and values together: looking up each value by its key would parse the JSON once per key.
        unnest(json_keys(attributed_range.args)) as counter,
        try_cast(json_extract_string(unnest(json_extract(attributed_range.args, '$.*')), '$') as double) as value
    from attributed_range
)
where isfinite(value) and counter not in ('correlation', 'External id', 'device', 'context', 'stream')
