-- The kinds of steps: how many, how long, their share of the loop, and what sets them apart from the usual kind.
--
-- Steps that count are grouped by what they do and how long they take (`step_lengths`). The loop is the time from the
-- start of the first counted step to the end of the last one, from work to work. Kind 0 has most steps and is called
-- usual. Another kind is named after the phase or region that it has and the usual kind lacks, if this explains most of
-- the difference; else after the phase in which the CPU takes longer, or after its wait for the GPU.
--
-- :param rank BIGINT = NULL           only this rank
-- :reads step_length, step_activity, rank_summary
-- :column rank BIGINT                 process rank
-- :column kind BIGINT                 number of the kind; 0 is the usual one
-- :column name VARCHAR                what sets the kind apart: usual, waits for data, with optimizer, longer forward
-- :column step_count BIGINT           counted steps of this kind
-- :column every BIGINT                distance between two steps of this kind, if always the same; NULL if not, of the
--                                     usual kind, and of fewer than three steps
-- :column mean_ns BIGINT              mean length of a step
-- :column least_ns BIGINT             length of the shortest one
-- :column most_ns BIGINT              length of the longest one
-- :column total_ns BIGINT             time of all of its steps
-- :column loop_pct DOUBLE             share of the loop; what the kinds lack of 100 % lies between steps
-- :column longer_ns BIGINT            mean length less that of the usual kind
-- :column cause VARCHAR               phase, region or activity of the main thread with the largest part of the
--                                     difference; NULL for the usual kind
-- :column cause_ns BIGINT             how much longer this part takes
-- :column example_step BIGINT         the step of median length
with counted as (
    select
        *,
        row_number() over (partition by rank order by start_ns) as number,
        count(*) over (partition by rank) as all_steps
    from step_length
    where kind is not null and is_asked($rank, rank)
),

-- The loop of each rank.
looped as (
    select
        rank,
        max(begin_ns + length_ns) - min(begin_ns) as loop_ns
    from counted
    group by rank
),

kind as (
    select
        counted.rank,
        counted.kind,
        count(*) as step_count,
        round(avg(counted.length_ns))::bigint as mean_ns,
        min(counted.length_ns) as least_ns,
        max(counted.length_ns) as most_ns,
        sum(counted.length_ns)::bigint as total_ns,
        any_value(counted.step) filter (where counted.stands_for) as example_step,
        any_value(counted.all_steps) as all_steps
    from counted
    group by counted.rank, counted.kind
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
        from counted
    )
    group by rank, kind
),

-- Parts of the time of each step: phases (on the CPU, or on the GPU if that is longer), waits for the GPU, regions and
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
            counted.rank,
            counted.step,
            counted.kind,
            step_part.part_kind,
            step_part.part,
            max(step_part.time_ns) as time_ns,
            any_value(kind.step_count) as step_count
        from counted
        inner join kind on counted.rank = kind.rank and counted.kind = kind.kind
        inner join step_part on counted.rank = step_part.rank and counted.step = step_part.step
        group by counted.rank, counted.step, counted.kind, step_part.part_kind, step_part.part
    )
    group by rank, kind, part_kind, part
),

-- Parts of a kind beside the same part of the usual kind.
compared as (
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

-- New parts of a kind that explain a quarter of the difference or more, and the part that explains most of it.
explained as (
    select
        compared.rank,
        compared.kind,
        string_agg(
            replace(compared.part, '_', ' '), ' and ' order by compared.more_ns desc, compared.part
        ) filter (
            where compared.is_new and 4 * compared.more_ns >= abs(kind.mean_ns - usual.mean_ns)
        ) as new_parts,
        arg_max(
            compared, compared.more_ns * sign(kind.mean_ns - usual.mean_ns)
        ) filter (where compared.part_kind != 'region' or compared.is_new) as largest
    from compared
    inner join kind on compared.rank = kind.rank and compared.kind = kind.kind
    inner join kind as usual on compared.rank = usual.rank and usual.kind = 0
    group by compared.rank, compared.kind
)

select
    kind.rank,
    kind.kind,
    case
        when kind.kind = 0 then 'usual'
        when explained.new_parts is not null then 'with ' || explained.new_parts
        when kind.mean_ns < usual.mean_ns then 'shorter'
        when explained.largest.part = 'load_data' then 'waits for data'
        when explained.largest.part_kind = 'sync' then 'more GPU work'
        when explained.largest.part is null or explained.largest.part = 'other' then 'longer'
        else 'longer ' || replace(explained.largest.part, '_', ' ')
    end as name,
    kind.step_count,
    case when kind.kind > 0 then distance.every end as every,
    kind.mean_ns,
    kind.least_ns,
    kind.most_ns,
    kind.total_ns,
    100.0 * kind.total_ns / nullif(looped.loop_ns, 0) as loop_pct,
    kind.mean_ns - usual.mean_ns as longer_ns,
    explained.largest.part as cause,
    explained.largest.more_ns::bigint as cause_ns,
    kind.example_step
from kind
inner join kind as usual on kind.rank = usual.rank and usual.kind = 0
inner join looped on kind.rank = looped.rank
left join distance on kind.rank = distance.rank and kind.kind = distance.kind
left join explained on kind.rank = explained.rank and kind.kind = explained.kind
order by kind.rank, kind.kind
