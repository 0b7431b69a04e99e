-- Kinds of steps: number, length, share of the loop, and difference from the usual kind.
--
-- Counted steps are grouped by activity and length (`step_lengths`). The loop is the time from the start of the first
-- counted step to the end of the last, measured from work to work. The profiler's own work counts neither to steps nor
-- to the loop.
--
-- Kind 0 has the most steps and is called usual. Another kind is named after phases and regions absent from the usual
-- kind (`with …`), if each explains at least a quarter of the difference. Otherwise a kind with a shorter mean is
-- called shorter, and a longer kind is named after the largest part of the difference: waiting for data, waiting for
-- the GPU (`more GPU work`), or a phase.
--
-- :param rank BIGINT = NULL           only this rank
-- :reads step_length, step_activity, rank_summary
-- :column rank RANK
-- :column kind BIGINT                 number of the kind; 0 is the usual kind
-- :column name VARCHAR                difference from the usual kind: usual, waits for data, with optimizer, longer
--                                     forward
-- :column step_count BIGINT           counted steps of this kind
-- :column every BIGINT                constant distance between two steps of this kind; NULL if not constant, for the
--                                     usual kind, and for fewer than three steps
-- :column mean_ns BIGINT              mean length of a step
-- :column least_ns BIGINT             length of the shortest step
-- :column most_ns BIGINT              length of the longest step
-- :column total_ns BIGINT             sum over the steps
-- :column loop_pct DOUBLE             share of the loop; time between steps is in no kind
-- :column longer_ns BIGINT            mean length minus the mean length of the usual kind; negative for shorter steps
-- :column cause VARCHAR               phase, region or activity of the main thread with the largest part of the
--                                     difference; NULL for the usual kind
-- :column cause_ns BIGINT             additional time of this part; negative if the part is shorter than in usual steps
-- :column example_step BIGINT         step of median length
with counted_step as (
    select
        * replace (length_ns - profiler_ns as length_ns),
        begin_ns + length_ns as until_ns,
        row_number() over (partition by rank order by start_ns) as number,
        count(*) over (partition by rank) as all_steps
    from step_length
    where kind is not null and is_asked($rank, rank)
),

-- The loop of each rank.
rank_loop as (
    select
        rank,
        max(until_ns) - min(begin_ns) - sum(profiler_ns) as loop_ns
    from counted_step
    group by rank
),

-- one row per kind: number and lengths of its steps
kind as (
    select
        counted_step.rank,
        counted_step.kind,
        count(*) as step_count,
        round(avg(counted_step.length_ns))::bigint as mean_ns,
        min(counted_step.length_ns) as least_ns,
        max(counted_step.length_ns) as most_ns,
        sum(counted_step.length_ns)::bigint as total_ns,
        any_value(counted_step.step) filter (where counted_step.stands_for) as example_step,
        any_value(counted_step.all_steps) as all_steps
    from counted_step
    group by counted_step.rank, counted_step.kind
),

-- Distances between successive steps of a kind.
distance as (
    select
        rank,
        kind,
        case when count(*) >= steps_of_pattern() and min(steps) = max(steps) then min(steps) end as every
    from (
        select
            rank,
            kind,
            number - lag(number) over (partition by rank, kind order by number) as steps
        from counted_step
    )
    group by rank, kind
),

-- Parts of the time of each step: phases (on the CPU, or on the GPU if longer), waits for the GPU, regions and
-- communication.
step_part as (
    select
        rank,
        step,
        case
            when region is not null then 'region' when activity = 'sync' then 'sync' else 'phase'
        end as part_kind,
        coalesce(region, case when activity = 'sync' then 'sync' else phase end) as part,
        sum(time_ns)::bigint as time_ns
    from step_activity
    group by rank, step, part_kind, part
    union all
    select
        rank,
        step,
        'phase',
        coalesce(phase, 'other'),
        sum(busy_ns)::bigint
    from rank_summary
    where cause is null
    group by rank, step, phase
    union all
    select
        rank,
        step,
        'class',
        class,
        sum(busy_ns)::bigint
    from rank_summary
    where class = 'communication'
    group by rank, step, class
),

-- Means over the steps of a kind.
part as (
    select
        rank,
        kind,
        part_kind,
        part,
        sum(time_ns) / any_value(step_count) as time_ns
    from (
        select
            counted_step.rank,
            counted_step.step,
            counted_step.kind,
            step_part.part_kind,
            step_part.part,
            max(step_part.time_ns) as time_ns,
            any_value(kind.step_count) as step_count
        from counted_step
        inner join kind on counted_step.rank = kind.rank and counted_step.kind = kind.kind
        inner join step_part on counted_step.rank = step_part.rank and counted_step.step = step_part.step
        group by counted_step.rank, counted_step.step, counted_step.kind, step_part.part_kind, step_part.part
    )
    group by rank, kind, part_kind, part
),

-- Parts of a kind compared to the same part of the usual kind.
compared_part as (
    select
        kind.rank,
        kind.kind,
        part.part_kind,
        part.part,
        part.time_ns - coalesce(usual.time_ns, 0) as more_ns,
        coalesce(usual.time_ns, 0) = 0 and part.part_kind != 'sync' and part.part != 'other' as is_new
    from kind
    inner join part on kind.rank = part.rank and kind.kind = part.kind
    left join part as usual
        on
            part.rank = usual.rank
            and usual.kind = 0
            and part.part_kind = usual.part_kind
            and part.part = usual.part
    where kind.kind > 0
),

-- New parts of a kind with at least a quarter of the difference, and the part with most of the difference.
kind_cause as (
    select
        compared_part.rank,
        compared_part.kind,
        string_agg(
            replace(compared_part.part, '_', ' '), ' and ' order by compared_part.more_ns desc, compared_part.part
        ) filter (
            where compared_part.is_new and 4 * compared_part.more_ns >= abs(kind.mean_ns - usual.mean_ns)
        ) as new_parts,
        -- prefer a named part with at least a quarter of the difference over time without a name, and a part absent
        -- from the usual kind over an equally long part
        coalesce(
            arg_max(
                compared_part, (compared_part.more_ns * sign(kind.mean_ns - usual.mean_ns), compared_part.is_new)
            ) filter (
                where compared_part.part != 'other'
                and (compared_part.part_kind != 'region' or compared_part.is_new)
                and 4 * compared_part.more_ns * sign(kind.mean_ns - usual.mean_ns) >= abs(kind.mean_ns - usual.mean_ns)
            ),
            arg_max(
                compared_part, (compared_part.more_ns * sign(kind.mean_ns - usual.mean_ns), compared_part.is_new)
            ) filter (where compared_part.part_kind != 'region' or compared_part.is_new)
        ) as largest
    from compared_part
    inner join kind on compared_part.rank = kind.rank and compared_part.kind = kind.kind
    inner join kind as usual on compared_part.rank = usual.rank and usual.kind = 0
    group by compared_part.rank, compared_part.kind
)

select
    kind.rank,
    kind.kind,
    case
        when kind.kind = 0 then 'usual'
        when kind_cause.new_parts is not null
            then 'with ' || kind_cause.new_parts || case
                when kind_cause.largest.part = 'load_data' and not kind_cause.largest.is_new then ', waits for data'
                else ''
            end
        when kind.mean_ns < usual.mean_ns then 'shorter'
        when kind_cause.largest.part = 'load_data' then 'waits for data'
        when kind_cause.largest.part_kind = 'sync' then 'more GPU work'
        when kind_cause.largest.part is null or kind_cause.largest.part = 'other' then 'longer'
        else 'longer ' || replace(kind_cause.largest.part, '_', ' ')
    end as name,
    kind.step_count,
    case when kind.kind > 0 then distance.every end as every,
    kind.mean_ns,
    kind.least_ns,
    kind.most_ns,
    kind.total_ns,
    100.0 * kind.total_ns / nullif(rank_loop.loop_ns, 0) as loop_pct,
    kind.mean_ns - usual.mean_ns as longer_ns,
    kind_cause.largest.part as cause,
    kind_cause.largest.more_ns::bigint as cause_ns,
    kind.example_step
from kind
inner join kind as usual on kind.rank = usual.rank and usual.kind = 0
inner join rank_loop on kind.rank = rank_loop.rank
left join distance on kind.rank = distance.rank and kind.kind = distance.kind
left join kind_cause on kind.rank = kind_cause.rank and kind.kind = kind_cause.kind
order by kind.rank, kind.kind
