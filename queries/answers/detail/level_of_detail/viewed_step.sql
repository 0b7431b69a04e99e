-- A row is a step that the tree looks at: what is asked for, and five typical steps of each rank.
--
-- The typical ones say what is tiny, whichever step is asked for: a step looks the same alone and in the whole run.
--
-- :takes rank, step
-- :reads step
-- :column rank BIGINT         process rank
-- :column step BIGINT         the step
-- :column start_ns BIGINT     its start
-- :column end_ns BIGINT       its end
-- :column is_typical BOOLEAN  it is one of the five, which are evenly spread over the run
with placed_step as (
    select
        rank,
        step,
        start_ns,
        end_ns,
        row_number() over (partition by rank order by start_ns) - 1 as number,
        count(*) over (partition by rank) as count
    from step
    where $rank is null or rank = $rank
)

select
    rank,
    step,
    start_ns,
    end_ns,
    number in (count // 10, 3 * count // 10, count // 2, 7 * count // 10, 9 * count // 10) as is_typical
from placed_step
where is_typical or $step is null or step = $step
