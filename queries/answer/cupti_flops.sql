-- Floating-point operations that the hardware counted, by the op and module that launched them.
--
-- From the counters of executed instructions (`smsp__sass_thread_inst_executed_op_fadd_pred_on.sum` and its like): an
-- add or multiply is 1 operation, a fused multiply-add 2 (the roofline method of NERSC). Tensor cores are not in these
-- counters, and half-precision ones include moves that compilers write as multiply-adds. Launches are found as in
-- `cupti_counters`. A rate needs the kernel's duration, which most traces with counters lack.
--
-- :param rank BIGINT = NULL         only this rank
-- :param step BIGINT = NULL         only kernels launched in this step
-- :param phase VARCHAR = NULL       only kernels launched in this phase
-- :param module VARCHAR = NULL      only the module with this path and the modules in it
-- :reads event, event_args, nesting, launch, label, model_op
-- :column rank BIGINT               process rank
-- :column op VARCHAR                op that launched the kernels; NULL when unknown
-- :column module_path VARCHAR       module; NULL when unknown
-- :column kernel_count BIGINT       profiled kernels
-- :column fp64_flop BIGINT          double-precision operations; NULL without counters of them
-- :column fp32_flop BIGINT          single-precision operations; NULL without counters of them
-- :column fp16_flop BIGINT          half-precision operations; NULL without counters of them
-- :column flop BIGINT               sum of the three
-- :column flop_pct DOUBLE           share of the rank
-- :column kernel_ns BIGINT          duration of the kernels; NULL unless all are in the trace
-- :column gflop_per_s DOUBLE        10^9 operations per second of kernel time; NULL unless known
-- :column largest_id BIGINT         the profiled range with most operations
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
    where event.category = 'cuda_profiler_range' and ($rank is null or event.rank = $rank)
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

ordered_call as (
    select
        rank,
        event_id,
        row_number() over (partition by rank order by start_ns, event_id) as place,
        count(*) over (partition by rank) as call_count
    from api_call
    where is_launch
),

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
    inner join ordered_call
        on
            profiled.rank = ordered_call.rank
            and profiled.place = ordered_call.place
            and profiled.range_count = ordered_call.call_count
    inner join nesting on ordered_call.rank = nesting.rank and ordered_call.event_id = nesting.event_id
    left join event as op on nesting.rank = op.rank and nesting.op_id = op.event_id
),

most_common as (
    select
        rank,
        name,
        any_value(name_count) as name_count,
        max(pair_count) as pair_count
    from by_place
    where name_count > 1 and name != '__missing__' and op is not null
    group by rank, name
),

believed as (
    select rank
    from most_common
    group by rank
    having 10 * sum(pair_count) >= 9 * sum(name_count)
),

by_time as (
    select
        profiled.rank,
        profiled.event_id,
        max(kernel.event_id) as kernel_id
    from profiled
    inner join kernel
        on
            profiled.rank = kernel.rank
            and profiled.name = kernel.name
            and profiled.end_ns > kernel.start_ns
            and profiled.start_ns < kernel.end_ns
    group by profiled.rank, profiled.event_id
    having count(*) = 1
),

by_correlation as (
    select
        profiled.rank,
        profiled.event_id,
        min(kernel.event_id) as kernel_id,
        min(api_call.event_id) as launch_id
    from profiled
    left join kernel on profiled.rank = kernel.rank and profiled.correlation = kernel.correlation
    left join api_call on profiled.rank = api_call.rank and profiled.correlation = api_call.correlation
    where profiled.correlation > 0
    group by profiled.rank, profiled.event_id
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
    where
        ($step is null or label.step = $step)
        and ($phase is null or label.phase = $phase)
        and ($module is null or model_op.path = $module or starts_with(model_op.path, $module || '.'))
),

named as (
    select
        placed.*,
        unnest(json_keys(placed.args)) as counter
    from placed
),

valued as (
    select
        named.* exclude (args),
        try_cast(
            json_extract_string(named.args, '/' || replace(replace(named.counter, '~', '~0'), '/', '~1')) as double
        ) as value
    from named
    where named.counter not in ('correlation', 'External id', 'device', 'context', 'stream')
),

weighted as (
    select
        *,
        regexp_extract(counter, 'thread_inst_executed_op_([dfh])(add|mul|fma)_pred_on\.sum$', 1) as precision,
        case when counter ilike '%fma_pred_on.sum' then 2 else 1 end * value as operations
    from valued
),

ranged as (
    select
        rank,
        event_id,
        op,
        module_path,
        any_value(kernel_ns) as kernel_ns,
        sum(operations) filter (where precision = 'd') as fp64_flop,
        sum(operations) filter (where precision = 'f') as fp32_flop,
        sum(operations) filter (where precision = 'h') as fp16_flop,
        sum(operations) as flop
    from weighted
    where precision in ('d', 'f', 'h')
    group by rank, event_id, op, module_path
),

grouped as (
    select
        rank,
        op,
        module_path,
        count(*) as kernel_count,
        sum(fp64_flop)::bigint as fp64_flop,
        sum(fp32_flop)::bigint as fp32_flop,
        sum(fp16_flop)::bigint as fp16_flop,
        sum(flop)::bigint as flop,
        case when count(*) = count(kernel_ns) then sum(kernel_ns)::bigint end as kernel_ns,
        arg_max(event_id, (flop, -event_id)) as largest_id
    from ranged
    group by rank, op, module_path
)

select
    rank,
    op,
    module_path,
    kernel_count,
    fp64_flop,
    fp32_flop,
    fp16_flop,
    flop,
    100.0 * flop / nullif(sum(flop) over (partition by rank), 0) as flop_pct,
    kernel_ns,
    flop::double / nullif(kernel_ns, 0) as gflop_per_s,
    largest_id
from grouped
order by rank, flop desc, op nulls last, module_path nulls last
