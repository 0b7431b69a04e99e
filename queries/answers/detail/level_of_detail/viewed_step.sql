-- One row per step used by the tree: the selected steps, and up to five sample steps of each rank.
--
-- The sample steps are evenly spread over the run. Their usual times decide which nodes are tiny, and which nodes are
-- replaced by their children. A step therefore looks the same alone and in the whole run.
--
-- :takes rank, step
-- :reads step
-- :column rank RANK
-- :column step STEP
-- :column start_ns BIGINT     start of the step
-- :column end_ns BIGINT       end of the step
-- :column is_typical BOOLEAN  the step is one of the up to five sample steps

-- one row per step, with its number and the number of steps of the rank
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
