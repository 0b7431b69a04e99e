-- One row is a step with its length from work to work, and whether it counts.
--
-- :reads step, launch, event, label, start_up_call
-- :column step BIGINT         number of the step
-- :column start_ns BIGINT     its start on the CPU
-- :column end_ns BIGINT       its end on the CPU
-- :column evidence VARCHAR    as in `step`
-- :column begin_ns BIGINT     when the step starts on the CPU and all work launched before is done
-- :column length_ns BIGINT    its time from work to work
-- :column start_up_ns BIGINT  of its time on the CPU, start-up work
-- :column role VARCHAR        counted, warm_up, cut_off or empty
with launched as (
    select
        launch.launch_start_ns as at_ns,
        max(max(event.end_ns)) over (order by launch.launch_start_ns rows unbounded preceding) as done_ns
    from launch
    inner join event on launch.event_id = event.event_id
    where launch.launch_start_ns is not null
    group by launch.launch_start_ns
),

-- The end of the work whose launch is not in the trace, and that ran before the first step.
early as (
    select max(event.end_ns) as done_ns
    from label
    inner join event on label.event_id = event.event_id
    where label.bucket = 'pre_window'
),

-- What the program does in each step: its GPU work, its ops and its other events.
worked as (
    select
        label.step,
        count(*) filter (where event.category in ('kernel', 'gpu_memcpy', 'gpu_memset')) as work_count,
        count(*) filter (where event.category = 'cpu_op') as op_count,
        count(*) as event_count
    from label
    inner join event on label.event_id = event.event_id
    where
        label.step is not null
        and event.dur_ns is not null
        and label.event_id not in (select event_id from step where event_id is not null)
    group by label.step
),

-- Start-up work as spans that do not overlap, on all threads together.
start_up_span as (
    select
        min(start_ns) as start_ns,
        max(end_ns) as end_ns
    from (
        select
            *,
            sum(opens::integer) over (order by start_ns, end_ns, event_id) as group_id
        from (
            select
                *,
                start_ns > coalesce(
                    max(end_ns) over (
                        order by start_ns, end_ns, event_id rows between unbounded preceding and 1 preceding
                    ),
                    start_ns - 1
                ) as opens
            from start_up_call
        )
    )
    group by group_id
),

start_up as (
    select
        step.step,
        sum(least(start_up_span.end_ns, step.end_ns) - greatest(start_up_span.start_ns, step.start_ns))::bigint
            as start_up_ns
    from start_up_span
    inner join step on start_up_span.start_ns < step.end_ns and start_up_span.end_ns > step.start_ns
    group by step.step
),

bounded as (
    select
        step.*,
        greatest(step.start_ns, coalesce(before.done_ns, 0), coalesce(early.done_ns, 0)) as from_ns,
        greatest(step.end_ns, coalesce(until.done_ns, 0), coalesce(early.done_ns, 0)) as to_ns
    from step
    cross join early
    asof left join launched as before on step.start_ns > before.at_ns
    asof left join launched as until on step.end_ns > until.at_ns
),

described as (
    select
        bounded.step,
        bounded.start_ns,
        bounded.end_ns,
        bounded.evidence,
        bounded.from_ns as begin_ns,
        greatest(bounded.to_ns - bounded.from_ns, 0) as length_ns,
        coalesce(start_up.start_up_ns, 0) as start_up_ns,
        100 * coalesce(start_up.start_up_ns, 0) >= start_up_pct() * (bounded.end_ns - bounded.start_ns)
        and start_up.start_up_ns > 0 as starts_up,
        coalesce(worked.work_count, 0) > 0 as has_work,
        coalesce(worked.op_count, 0) > 0 as has_ops,
        coalesce(worked.event_count, 0) > 0 as has_events,
        row_number() over in_order = 1
        and (bounded.evidence not in ('profiler_step', 'annotation') or bounded.name = 'ProfilerStep#0')
        and count(*) over () > 2 as may_warm_up
    from bounded
    left join worked on bounded.step = worked.step
    left join start_up on bounded.step = start_up.step
    window in_order as (order by bounded.start_ns)
),

-- The first iteration is a warm-up unless another step takes as long.
first_checked as (
    select
        *,
        may_warm_up
        and not exists (
            select 1 from described as other
            where
                other.step != described.step
                and 100 * abs(other.length_ns - described.length_ns) <= start_up_pct() * other.length_ns
        ) as is_first
    from described
),

-- The one row says until when steps have work and ops, and whether all steps until then have them.
last_full as (
    select
        last_work_ns,
        last_op_ns,
        coalesce(
            (select bool_and(has_work) from first_checked where has_events and start_ns <= last_work_ns), false
        ) as always_works,
        coalesce(
            (select bool_and(has_ops) from first_checked where has_events and start_ns <= last_op_ns), false
        ) as always_has_ops
    from (
        select
            max(start_ns) filter (where has_work) as last_work_ns,
            max(start_ns) filter (where has_ops) as last_op_ns
        from first_checked
    )
),

checked as (
    select
        first_checked.*,
        not first_checked.has_events and bool_or(first_checked.has_events) over () as is_empty,
        coalesce(last_full.always_works and first_checked.start_ns > last_full.last_work_ns, false)
        or coalesce(last_full.always_has_ops and first_checked.start_ns > last_full.last_op_ns, false) as is_cut_off,
        first_checked.has_events and not first_checked.starts_up and not first_checked.is_first as is_later
    from first_checked
    cross join last_full
)

select
    step,
    start_ns,
    end_ns,
    evidence,
    begin_ns,
    length_ns,
    start_up_ns,
    case
        when is_empty then 'empty'
        when is_cut_off then 'cut_off'
        when is_first or (not bool_or(is_later) over so_far and bool_or(is_later) over ()) then 'warm_up'
        else 'counted'
    end as role
from checked
window so_far as (order by start_ns rows unbounded preceding)
order by start_ns
