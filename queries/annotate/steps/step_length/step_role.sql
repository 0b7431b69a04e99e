-- Steps with the length from work to work, and whether each counts.
--
-- :reads step, launch, event, label, start_up_call
-- :column step STEP
-- :column start_ns BIGINT     start of the step on the CPU
-- :column end_ns BIGINT       end of the step on the CPU
-- :column evidence VARCHAR    as in `step`
-- :column begin_ns BIGINT     time at which the step has started on the CPU and all work launched before is done
-- :column length_ns BIGINT    time from work to work
-- :column start_up_ns BIGINT  time on the CPU in start-up work
-- :column role VARCHAR        counted, warm_up, cut_off or empty
with launch_time as (
    select
        launch.launch_start_ns as at_ns,
        max(max(event.end_ns)) over (order by launch.launch_start_ns rows unbounded preceding) as done_ns
    from launch
    inner join event on launch.event_id = event.event_id
    where launch.launch_start_ns is not null
    group by launch.launch_start_ns
),

-- End of the work before the first step with a launch outside the trace.
early_work as (
    select max(event.end_ns) as done_ns
    from label
    inner join event on label.event_id = event.event_id
    where label.bucket = 'pre_window'
),

-- Number of GPU events, ops and all events in each step.
step_content as (
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

start_up_time as (
    select
        step.step,
        sum(least(start_up_span.end_ns, step.end_ns) - greatest(start_up_span.start_ns, step.start_ns))::bigint
            as start_up_ns
    from start_up_span
    inner join step on start_up_span.start_ns < step.end_ns and start_up_span.end_ns > step.start_ns
    group by step.step
),

bounded_step as (
    select
        step.*,
        greatest(step.start_ns, coalesce(before.done_ns, 0), coalesce(early_work.done_ns, 0)) as from_ns,
        greatest(step.end_ns, coalesce(until.done_ns, 0), coalesce(early_work.done_ns, 0)) as to_ns
    from step
    cross join early_work
    asof left join launch_time as before on step.start_ns > before.at_ns
    asof left join launch_time as until on step.end_ns > until.at_ns
),

described_step as (
    select
        bounded_step.step,
        bounded_step.start_ns,
        bounded_step.end_ns,
        bounded_step.evidence,
        bounded_step.from_ns as begin_ns,
        greatest(bounded_step.to_ns - bounded_step.from_ns, 0) as length_ns,
        coalesce(start_up_time.start_up_ns, 0) as start_up_ns,
        100 * coalesce(start_up_time.start_up_ns, 0) >= start_up_pct() * (bounded_step.end_ns - bounded_step.start_ns)
        and start_up_time.start_up_ns > 0 as starts_up,
        coalesce(step_content.work_count, 0) > 0 as has_work,
        coalesce(step_content.op_count, 0) > 0 as has_ops,
        coalesce(step_content.event_count, 0) > 0 as has_events,
        row_number() over in_order = 1
        and (bounded_step.evidence not in ('profiler_step', 'annotation') or bounded_step.name = 'ProfilerStep#0')
        and count(*) over () > 2 as may_warm_up
    from bounded_step
    left join step_content on bounded_step.step = step_content.step
    left join start_up_time on bounded_step.step = start_up_time.step
    window in_order as (order by bounded_step.start_ns)
),

-- The first iteration is a warm-up unless another step takes as long.
compared_step as (
    select
        *,
        may_warm_up
        and not exists (
            select 1 from described_step as other
            where
                other.step != described_step.step
                and 100 * abs(other.length_ns - described_step.length_ns) <= start_up_pct() * other.length_ns
        ) as is_first
    from described_step
),

-- One row: the last steps with work and with ops, and whether all steps up to each have work or ops.
last_full_step as (
    select
        last_work_ns,
        last_op_ns,
        coalesce(
            (select bool_and(has_work) from compared_step where has_events and start_ns <= last_work_ns), false
        ) as always_works,
        coalesce(
            (select bool_and(has_ops) from compared_step where has_events and start_ns <= last_op_ns), false
        ) as always_has_ops
    from (
        select
            max(start_ns) filter (where has_work) as last_work_ns,
            max(start_ns) filter (where has_ops) as last_op_ns
        from compared_step
    )
),

checked_step as (
    select
        compared_step.*,
        not compared_step.has_events and bool_or(compared_step.has_events) over () as is_empty,
        coalesce(last_full_step.always_works and compared_step.start_ns > last_full_step.last_work_ns, false)
        or coalesce(last_full_step.always_has_ops and compared_step.start_ns > last_full_step.last_op_ns, false)
            as is_cut_off,
        compared_step.has_events and not compared_step.starts_up and not compared_step.is_first as is_later
    from compared_step
    cross join last_full_step
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
from checked_step
window so_far as (order by start_ns rows unbounded preceding)
order by start_ns
