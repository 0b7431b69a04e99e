-- Functions that the CPU runs while the GPU is idle, by samples of the stack, most samples first.
--
-- Nsight Systems takes the samples (`--sample`). A sample counts if it is on the thread that the GPU waits for, in a
-- part of `idle_part` before the launch. `function` is the innermost function of the user's code on the stack, or the
-- innermost function if the stack has no such code. A share of few samples is uncertain. Samples show running threads:
-- a thread that waits has few or none, and `idle_events` names the call in which the thread waits.
--
-- :param rank BIGINT = NULL          only this rank
-- :param step BIGINT = NULL          only this step
-- :param cause HOST_CAUSE = NULL     only idle time of this cause
-- :param limit BIGINT >= 0 or NULL = 20 so many functions of each cause; NULL for all
-- :reads idle_part, cpu_sample
-- :column rank RANK
-- :column cause HOST_CAUSE           cause of the idle time
-- :column function VARCHAR           the function
-- :column source VARCHAR             file and line of python code, or the library; NULL if unknown
-- :column is_user BOOLEAN            the function is user code
-- :column inner_function VARCHAR     innermost function of most of these samples, such as `fsync`
-- :column sample_count BIGINT        samples in the function
-- :column all_count BIGINT           samples in idle time of this cause
-- :column sample_pct DOUBLE          share of the samples in idle time of this cause
-- :column idle_ns BIGINT             this share of the cause's idle time, an estimate
-- :column event_id BIGINT            the first of the samples

-- one row per idle part of a thread
with part as (
    select distinct
        rank,
        track_id,
        start_ns,
        end_ns,
        cause
    from idle_part
    where
        cause in ('load_data', 'profiler', 'sync', 'other_ranks', 'other_thread', 'cpu_tensor', 'op', 'python')
        and is_asked($rank, rank)
        and is_asked($step, step)
        and is_asked($cause, cause)
),

total as (
    select
        rank,
        cause,
        sum(end_ns - start_ns) as idle_ns
    from part
    group by rank, cause
),

-- one row per sample in an idle part
idle_sample as (
    select
        cpu_sample.*,
        part.cause
    from cpu_sample
    asof inner join part
        on
            cpu_sample.rank = part.rank
            and cpu_sample.track_id = part.track_id
            and cpu_sample.start_ns >= part.start_ns
    where cpu_sample.start_ns < part.end_ns
),

-- one row per cause and function
function_sample as (
    select
        rank,
        cause,
        function,
        file,
        is_user,
        mode(line order by line) as line,
        mode(inner_function order by inner_function) as inner_function,
        count(*) as sample_count,
        min(event_id) as event_id,
        sum(count(*)) over (partition by rank, cause)::bigint as all_count
    from idle_sample
    group by rank, cause, function, file, is_user
    qualify
        row_number() over (
            partition by rank, cause
            order by count(*) desc, is_user desc, function, file
        ) <= coalesce($limit, 9223372036854775807)
)

select
    function_sample.rank,
    function_sample.cause,
    function_sample.function,
    function_sample.file || coalesce(':' || function_sample.line, '') as source,
    function_sample.is_user,
    function_sample.inner_function,
    function_sample.sample_count,
    function_sample.all_count,
    100.0 * function_sample.sample_count / function_sample.all_count as sample_pct,
    (total.idle_ns * function_sample.sample_count // function_sample.all_count)::bigint as idle_ns,
    function_sample.event_id
from function_sample
inner join total on function_sample.rank = total.rank and function_sample.cause = total.cause
order by
    function_sample.rank, total.idle_ns desc, function_sample.cause, function_sample.sample_count desc,
    function_sample.is_user desc, function_sample.function, function_sample.file
