-- Floating-point operations counted by the hardware, by op and module.
--
-- The counts come from counters of executed instructions (`smsp__sass_thread_inst_executed_op_fadd_pred_on.sum` and
-- similar). An add or multiply is 1 operation, a fused multiply-add 2 (the roofline method of NERSC). These counters
-- omit tensor cores. The half-precision counters include moves that compilers write as multiply-adds. Launches are
-- found as in `cupti_counters`. A rate needs the kernel's duration, which is missing from most traces with counters.
--
-- :param rank BIGINT = NULL         only this rank
-- :param step BIGINT = NULL         only kernels launched in this step
-- :param phase PHASE = NULL         only kernels launched in this phase
-- :param module VARCHAR = NULL      only this module and its submodules, by path
-- :reads counter_value
-- :column rank RANK
-- :column op VARCHAR                op around the launches; NULL if unknown
-- :column module_path VARCHAR       module; NULL if unknown
-- :column kernel_count BIGINT       profiled kernels
-- :column fp64_flop BIGINT          double-precision operations; NULL without such counters
-- :column fp32_flop BIGINT          single-precision operations; NULL without such counters
-- :column fp16_flop BIGINT          half-precision operations; NULL without such counters
-- :column flop BIGINT               sum of the three precisions
-- :column flop_pct DOUBLE           share of the rank's operations
-- :column kernel_ns BIGINT          duration of the kernels; NULL unless the trace has all of them
-- :column gflop_per_s DOUBLE        10^9 operations per second of kernel time; NULL unless known
-- :column largest_id BIGINT         profiled range with the most operations

-- one row per counter value, with its precision and number of operations
with weighted_value as (
    select
        *,
        regexp_extract(counter, 'thread_inst_executed_op_([dfh])(add|mul|fma)_pred_on\.sum$', 1) as precision,
        -- Negative values and NaN are damaged. Values above 10^18 are capped.
        case when value >= 0 then least(case when counter ilike '%fma_pred_on.sum' then 2 else 1 end * value, 1e18) end
            as operations
    from counter_value
    where
        is_asked($rank, rank)
        and is_asked($step, step)
        and is_asked($phase, phase)
        and in_module(module_path, $module)
),

-- one row per profiled range: operations by precision
profiled_range as (
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
    from weighted_value
    where precision in ('d', 'f', 'h')
    group by rank, event_id, op, module_path
),

-- one row per op and module
op_total as (
    select
        rank,
        op,
        module_path,
        count(*) as kernel_count,
        (case when sum(fp64_flop) > 9e18 then 9e18 else sum(fp64_flop) end)::bigint as fp64_flop,
        (case when sum(fp32_flop) > 9e18 then 9e18 else sum(fp32_flop) end)::bigint as fp32_flop,
        (case when sum(fp16_flop) > 9e18 then 9e18 else sum(fp16_flop) end)::bigint as fp16_flop,
        (case when sum(flop) > 9e18 then 9e18 else sum(flop) end)::bigint as flop,
        case when count(*) = count(kernel_ns) then sum(kernel_ns)::bigint end as kernel_ns,
        arg_max(event_id, (flop, -event_id)) as largest_id
    from profiled_range
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
from op_total
order by rank, flop desc, op nulls last, module_path nulls last
