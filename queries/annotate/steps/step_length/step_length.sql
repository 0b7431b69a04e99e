-- Length of each step from work to work, whether the step counts, and its kind.
--
-- The CPU can be steps ahead of the GPU, which makes the time between two marks on the CPU a poor measure. A step
-- therefore begins when all GPU work launched before the step is done, and ends when all work launched before its end
-- is done.
--
-- Roles. A step is excluded only for a demonstrable reason, never for being long:
--   warm_up  steps at the start of the recording. The first iteration, if the profiler is not known to have skipped it
--            (`ProfilerStep#0`, or steps without annotations), if there are at least two other steps, and if no other
--            step has the same length within `start_up_pct()`. Also all steps before the first step with less than
--            `start_up_pct()` start-up work (`start_up_call`),
--   cut_off  steps at the end without GPU work or without ops, if all steps before have them: the recording ended,
--   empty    no event of the program, and no GPU work launched by the step,
--   typical  the step of median length in the kind with most steps (the shorter of two middle steps),
--   usual    the other counted steps.
--
-- Kinds are groups of counted steps with the same content and a similar length. Two steps are of different kinds if one
-- has a phase or region that the other lacks (`step_trait`), or if their lengths are on different sides of a gap. A gap
-- is a length over `kind_gap()` times the next shorter length. A gap is also a length over `least_kind_gap()` times the
-- next shorter length, under two conditions: the gap is twice as wide as the range of all shorter lengths, and at least
-- a quarter of the steps, and three, are shorter. Longer steps that wait for data are a separate kind. Lengths exclude
-- the profiler's own work. Kind 0 has most steps; among kinds with equally many steps, the shorter steps come first. A
-- step that does not count has no kind.
--
-- :reads step_role, step_trait, step_profiler, step_activity
-- :column step STEP
-- :column start_ns BIGINT     start of the step on the CPU
-- :column end_ns BIGINT       end of the step on the CPU
-- :column evidence VARCHAR    profiler_step, annotation, loop, module, autograd, repetition or whole_trace
-- :column begin_ns BIGINT     time at which the step has started on the CPU and all work launched before is done
-- :column length_ns BIGINT    time from work to work; 0 if the step's work was over before the work of the previous
--                             step
-- :column profiler_ns BIGINT  the part of `length_ns` caused by the profiler's own work
-- :column start_up_ns BIGINT  time on the CPU in compilation, first calls, graph capture and allocator growth
-- :column role VARCHAR        typical, usual, warm_up, cut_off or empty
-- :column kind BIGINT         number of the kind, from 0; NULL for a step that does not count
-- :column stands_for BOOLEAN  the step has the median length of its kind; NULL for a step that does not count
with counted_step as (
    select
        step_role.* replace (step_role.length_ns - coalesce(step_profiler.profiler_ns, 0) as length_ns),
        coalesce(trait.traits, '') as traits,
        coalesce(load.load_ns, 0) as load_ns
    from step_role
    left join step_profiler on step_role.step = step_profiler.step
    left join (
        select
            step,
            sum(time_ns)::bigint as load_ns
        from step_activity
        where phase = 'load_data'
        group by step
    ) as load on step_role.step = load.step
    left join (
        select
            step,
            string_agg(trait, ', ' order by trait) as traits
        from step_trait
        group by step
    ) as trait on step_role.step = trait.step
    where step_role.role = 'counted'
),

-- Counted steps, with the number of gaps in length below, among steps with the same traits.
clustered_step as (
    select
        *,
        sum(opens::integer) over (partition by traits order by length_ns, start_ns rows unbounded preceding) as cluster
    from (
        select
            *,
            length_ns > kind_gap() * shorter_ns
            or (
                shorter_count >= greatest(steps_of_pattern(), step_count / 4)
                and length_ns >= least_kind_gap() * shorter_ns
                and length_ns - shorter_ns >= 2 * (shorter_ns - least_ns)
            ) as opens
        from (
            select
                *,
                lag(length_ns, 1, length_ns) over by_length as shorter_ns,
                first_value(length_ns) over by_length as least_ns,
                row_number() over by_length - 1 as shorter_count,
                count(*) over (partition by traits) as step_count
            from counted_step
            window by_length as (partition by traits order by length_ns, start_ns)
        )
    )
),

-- Steps, with the largest cluster among steps with the same traits.
compared_step as (
    select
        *,
        first_value(cluster) over (partition by traits order by cluster_count desc, cluster) as main_cluster
    from (
        select
            *,
            count(*) over (partition by traits, cluster) as cluster_count
        from clustered_step
    )
),

-- Longer steps wait for data if loading explains half of the difference.
judged_step as (
    select
        *,
        cluster > main_cluster
        and 2 * (load_ns - median(load_ns) filter (where cluster = main_cluster) over (partition by traits))
        >= length_ns - median(length_ns) filter (where cluster = main_cluster) over (partition by traits) as is_late
    from compared_step
),

-- Small clusters longer than the largest cluster are one kind, as are small shorter clusters: slow steps without a
-- pattern seldom take equally long. Steps that wait for data are separate.
grouped_step as (
    select
        * exclude (cluster),
        case
            when cluster = main_cluster or count(*) over (partition by traits, cluster, is_late) >= steps_of_pattern()
                then 2 * cluster + is_late::integer
            when cluster > main_cluster then 1e9::bigint + is_late::integer
            else -1
        end as cluster
    from judged_step
),

kind as (
    select
        traits,
        cluster,
        row_number() over (order by count(*) desc, sum(length_ns), min(start_ns)) - 1 as kind
    from grouped_step
    group by traits, cluster
),

-- Counted steps, with a flag for the median length of the kind.
ranked_step as (
    select
        grouped_step.step,
        kind.kind,
        row_number() over in_kind = (count(*) over (partition by kind.kind) + 1) // 2 as stands_for
    from grouped_step
    inner join kind on grouped_step.traits = kind.traits and grouped_step.cluster = kind.cluster
    window in_kind as (partition by kind.kind order by grouped_step.length_ns, grouped_step.start_ns)
)

select
    step_role.step,
    step_role.start_ns,
    step_role.end_ns,
    step_role.evidence,
    step_role.begin_ns,
    step_role.length_ns,
    coalesce(step_profiler.profiler_ns, 0) as profiler_ns,
    step_role.start_up_ns,
    case
        when step_role.role != 'counted' then step_role.role
        when ranked_step.kind = 0 and ranked_step.stands_for then 'typical'
        else 'usual'
    end as role,
    ranked_step.kind,
    ranked_step.stands_for
from step_role
left join ranked_step on step_role.step = ranked_step.step
left join step_profiler on step_role.step = step_profiler.step
order by step_role.start_ns
