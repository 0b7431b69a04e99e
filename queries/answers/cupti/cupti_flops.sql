-- Floating-point operations that the hardware counted, by the op and module that launched them.
--
-- From the counters of executed instructions (`smsp__sass_thread_inst_executed_op_fadd_pred_on.sum` and its like): an
-- add or multiply is 1 operation, a fused multiply-add 2 (the roofline method of NERSC). Tensor cores are not in these
-- counters, and half-precision ones include moves that compilers write as multiply-adds. Launches are found as in
-- `cupti_counters`. A rate needs the kernel's duration, which most traces with counters lack.
--
-- :param rank BIGINT = NULL         only this rank
-- :param step BIGINT = NULL         only kernels launched in this step
-- :param phase PHASE = NULL
--                                   only kernels launched in this phase
-- :param module VARCHAR = NULL      only the module with this path and the modules in it
-- :reads counter_value
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
with weighted as (
    select
        *,
        regexp_extract(counter, 'thread_inst_executed_op_([dfh])(add|mul|fma)_pred_on\.sum$', 1) as precision,
        -- what is below zero or no number is damaged, and beyond 10^18 only a bound
        case when value >= 0 then least(case when counter ilike '%fma_pred_on.sum' then 2 else 1 end * value, 1e18) end
            as operations
    from counter_value
    where
        is_asked($rank, rank)
        and is_asked($step, step)
        and is_asked($phase, phase)
        and in_module(module_path, $module)
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
        (case when sum(fp64_flop) > 9e18 then 9e18 else sum(fp64_flop) end)::bigint as fp64_flop,
        (case when sum(fp32_flop) > 9e18 then 9e18 else sum(fp32_flop) end)::bigint as fp32_flop,
        (case when sum(fp16_flop) > 9e18 then 9e18 else sum(fp16_flop) end)::bigint as fp16_flop,
        (case when sum(flop) > 9e18 then 9e18 else sum(flop) end)::bigint as flop,
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
