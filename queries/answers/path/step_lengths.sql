-- How long each step takes from work to work, and which step stands for the run: the median of the usual ones.
--
-- The CPU can be steps ahead of the GPU, and then the time between two marks on the CPU says little. So a step begins
-- when all GPU work launched before it is done, and ends when all launched before its end is.
--
-- Roles:
--   empty     at the end of the trace: it launched no GPU work, although others did, or ran no op, although others did,
--   warm_up   the first step, where nothing shows that the profiler waited for one: `ProfilerStep#0`, or steps that
--             PyTorch did not mark; if there are two others,
--   outlier   it takes more than 1.5 times as long as the median, of three or more,
--   typical   the median of those that are left (of two in the middle, the shorter one),
--   usual     the others.
--
-- :param rank BIGINT = NULL        only this rank
-- :reads step, launch, event, label
-- :column rank BIGINT              process rank
-- :column step BIGINT              number of the step
-- :column start_ns BIGINT          its start on the CPU
-- :column end_ns BIGINT            its end on the CPU
-- :column evidence VARCHAR         profiler_step, annotation, loop, module, autograd, repetition or whole_trace
-- :column length_ns BIGINT         its time from work to work; 0 if its work was over before that of the step before
-- :column role VARCHAR             typical, usual, warm_up, outlier or empty
with launched as (
    select
        launch.rank,
        launch.launch_start_ns as at_ns,
        max(max(event.end_ns)) over (
            partition by launch.rank order by launch.launch_start_ns rows unbounded preceding
        ) as done_ns
    from launch
    inner join event on launch.rank = event.rank and launch.event_id = event.event_id
    where launch.launch_start_ns is not null
    group by launch.rank, launch.launch_start_ns
),

-- of the work whose launch is not in the trace, what ran before the first step was launched before it
early as (
    select
        label.rank,
        max(event.end_ns) as done_ns
    from label
    inner join event on label.rank = event.rank and label.event_id = event.event_id
    where label.bucket = 'pre_window'
    group by label.rank
),

worked as (
    select
        label.rank,
        label.step,
        count(*) filter (where event.category in ('kernel', 'gpu_memcpy', 'gpu_memset')) as work_count,
        count(*) filter (where event.category = 'cpu_op') as op_count
    from label
    inner join event on label.rank = event.rank and label.event_id = event.event_id
    where label.step is not null and is_asked($rank, label.rank)
    group by label.rank, label.step
),

bounded as (
    select
        step.*,
        greatest(step.start_ns, coalesce(before.done_ns, 0), coalesce(early.done_ns, 0)) as from_ns,
        greatest(step.end_ns, coalesce(until.done_ns, 0), coalesce(early.done_ns, 0)) as to_ns
    from step
    left join early on step.rank = early.rank
    asof left join launched as before on step.rank = before.rank and step.start_ns > before.at_ns
    asof left join launched as until on step.rank = until.rank and step.end_ns > until.at_ns
    where is_asked($rank, step.rank)
),

described as (
    select
        bounded.rank,
        bounded.step,
        bounded.start_ns,
        bounded.end_ns,
        bounded.evidence,
        greatest(bounded.to_ns - bounded.from_ns, 0) as length_ns,
        coalesce(worked.work_count, 0) > 0 or max(coalesce(worked.work_count, 0)) over in_rank = 0 as has_work,
        coalesce(worked.op_count, 0) > 0 or max(coalesce(worked.op_count, 0)) over in_rank = 0 as has_ops,
        row_number() over (partition by bounded.rank order by bounded.start_ns) = 1
        and (bounded.evidence not in ('profiler_step', 'annotation') or bounded.name = 'ProfilerStep#0')
        and count(*) over in_rank > 2 as is_first
    from bounded
    left join worked on bounded.rank = worked.rank and bounded.step = worked.step
    window in_rank as (partition by bounded.rank)
),

checked as (
    select
        *,
        not coalesce(
            bool_or(has_work and has_ops) over (
                partition by rank order by start_ns rows between current row and unbounded following
            ),
            false
        ) as is_empty
    from described
),

middle as (
    select
        rank,
        case when count(*) > 2 then quantile_disc(length_ns, 0.5) end as median_ns
    from checked
    where not is_empty and not is_first
    group by rank
),

sorted as (
    select
        checked.*,
        case
            when checked.is_empty then 'empty'
            when checked.is_first then 'warm_up'
            when 2 * checked.length_ns > 3 * middle.median_ns then 'outlier'
            else 'usual'
        end as kind
    from checked
    left join middle on checked.rank = middle.rank
),

ranked as (
    select
        *,
        row_number() over (partition by rank, kind order by length_ns, start_ns) as place,
        count(*) over (partition by rank, kind) as kind_count
    from sorted
)

select
    rank,
    step,
    start_ns,
    end_ns,
    evidence,
    length_ns,
    case when kind = 'usual' and place = (kind_count + 1) // 2 then 'typical' else kind end as role
from ranked
order by rank, start_ns
