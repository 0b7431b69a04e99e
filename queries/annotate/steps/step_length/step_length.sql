-- How long each step takes from work to work, whether the step counts, and its kind.
--
-- The CPU can be steps ahead of the GPU, and then the time between two marks on the CPU says little. So a step begins
-- when all GPU work launched before the step is done, and ends when all work launched before its end is done.
--
-- Roles. A step does not count for a reason that can be shown, and never for being long:
--   warm_up  steps at the start of the recording: the first iteration, where nothing shows that the profiler waited
--            for one (`ProfilerStep#0`, or steps that PyTorch did not mark; if there are two others, and none of them
--            is as long within `start_up_pct()`), and all steps before the first step of which start-up work
--            (`start_up_call`) takes less than `start_up_pct()`,
--   cut_off  steps at the end without GPU work or without ops, although all steps before have them: the recording
--            ended,
--   empty    no event of the program, and no GPU work launched by the step,
--   typical  of the kind with most steps, the step of median length (of two in the middle, the shorter one),
--   usual    the other counted steps.
--
-- Kinds are groups of counted steps that do the same for about as long. Two steps are of different kinds if one has a
-- phase or region that the other lacks (`step_trait`), or if their lengths are on different sides of a gap: a length is
-- over `kind_gap()` times the next shorter one, or over `least_kind_gap()` times it, where the gap is twice as wide as
-- all shorter lengths are apart, and at least a quarter of the steps, and three, are shorter. Kind 0 has most steps,
-- and of two kinds with as many, the shorter ones. A step that does not count has no kind.
--
-- :reads step_role, step_trait
-- :column step BIGINT         number of the step
-- :column start_ns BIGINT     its start on the CPU
-- :column end_ns BIGINT       its end on the CPU
-- :column evidence VARCHAR    profiler_step, annotation, loop, module, autograd, repetition or whole_trace
-- :column begin_ns BIGINT     when the step starts on the CPU and all work launched before is done
-- :column length_ns BIGINT    its time from work to work; 0 if its work was over before the work of the previous step
-- :column start_up_ns BIGINT  of its time on the CPU, compilation, first calls, graph capture and allocator growth
-- :column role VARCHAR        typical, usual, warm_up, cut_off or empty
-- :column kind BIGINT         number of its kind, from 0; NULL for a step that does not count
-- :column stands_for BOOLEAN  the step is the one of median length in its kind; NULL for a step that does not count
with counted as (
    select
        step_role.*,
        coalesce(trait.traits, '') as traits
    from step_role
    left join (
        select
            step,
            string_agg(trait, ', ' order by trait) as traits
        from step_trait
        group by step
    ) as trait on step_role.step = trait.step
    where step_role.role = 'counted'
),

-- Counted steps with the number of gaps in length below, among steps with the same traits.
clustered as (
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
            from counted
            window by_length as (partition by traits order by length_ns, start_ns)
        )
    )
),

-- Clusters of few steps that are longer than the cluster with most steps are one kind, and so are shorter ones: slow
-- steps without a pattern seldom take equally long.
grouped as (
    select
        * exclude (cluster),
        case
            when cluster_count >= steps_of_pattern() or cluster = main_cluster then cluster
            when cluster > main_cluster then 1e9::bigint
            else -1
        end as cluster
    from (
        select
            *,
            first_value(cluster) over (
                partition by traits order by cluster_count desc, cluster
            ) as main_cluster
        from (
            select
                *,
                count(*) over (partition by traits, cluster) as cluster_count
            from clustered
        )
    )
),

kind as (
    select
        traits,
        cluster,
        row_number() over (order by count(*) desc, sum(length_ns), min(start_ns)) - 1 as kind
    from grouped
    group by traits, cluster
),

-- Counted steps with their place in the kind by length.
ranked as (
    select
        grouped.step,
        kind.kind,
        row_number() over in_kind = (count(*) over (partition by kind.kind) + 1) // 2 as stands_for
    from grouped
    inner join kind on grouped.traits = kind.traits and grouped.cluster = kind.cluster
    window in_kind as (partition by kind.kind order by grouped.length_ns, grouped.start_ns)
)

select
    step_role.step,
    step_role.start_ns,
    step_role.end_ns,
    step_role.evidence,
    step_role.begin_ns,
    step_role.length_ns,
    step_role.start_up_ns,
    case
        when step_role.role != 'counted' then step_role.role
        when ranked.kind = 0 and ranked.stands_for then 'typical'
        else 'usual'
    end as role,
    ranked.kind,
    ranked.stands_for
from step_role
left join ranked on step_role.step = ranked.step
order by step_role.start_ns
