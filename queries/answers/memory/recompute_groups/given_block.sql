-- Inputs of light ops: live blocks with the size of an argument.
--
-- Candidates are ranked. The result of the previous op comes first. Unsaved blocks follow, latest first: they are alive
-- because the program still needs them. Saved blocks are alive anyway and come last, latest first. An argument without
-- a matching block is older than the trace, such as a parameter.
--
-- :reads made_block, light_argument
-- :column rank RANK
-- :column op_id BIGINT     the op
-- :column block_id BIGINT  block used as an input of the op

-- one row per op and argument size
with size_of_argument as (
    select
        rank,
        op_id,
        step,
        device,
        op_start_ns,
        units,
        max(place) as argument_count
    from light_argument
    group by rank, op_id, step, device, op_start_ns, units
),

-- one row per saved block, numbered among blocks of its size
saved_block as (
    select
        rank,
        device,
        units,
        block_id,
        start_ns,
        end_ns,
        row_number() over (partition by rank, device, units order by start_ns, block_id) as number
    from made_block
    where is_saved
),

-- The latest block allocated before each op, if it has the size of an argument.
previous_block as (
    select
        size_of_argument.rank,
        size_of_argument.op_id,
        size_of_argument.units,
        made_block.block_id,
        0 as priority,
        made_block.start_ns
    from size_of_argument
    asof inner join made_block
        on
            size_of_argument.rank = made_block.rank
            and size_of_argument.device = made_block.device
            and size_of_argument.op_start_ns > made_block.start_ns
    where
        size_of_argument.units = made_block.units
        and coalesce(made_block.end_ns > size_of_argument.op_start_ns, true)
),

-- one row per op and live, unsaved block of an argument's size in the same step
unsaved_block as (
    select
        size_of_argument.rank,
        size_of_argument.op_id,
        size_of_argument.units,
        made_block.block_id,
        1 as priority,
        made_block.start_ns
    from size_of_argument
    inner join made_block
        on
            size_of_argument.rank = made_block.rank
            and size_of_argument.device = made_block.device
            and size_of_argument.step = made_block.step
            and size_of_argument.units = made_block.units
            and made_block.start_ns < size_of_argument.op_start_ns
    where not made_block.is_saved and coalesce(made_block.end_ns > size_of_argument.op_start_ns, true)
),

-- one row per op and argument size, with the latest saved block of this size
latest_saved_block as (
    select
        size_of_argument.*,
        saved_block.number
    from size_of_argument
    asof inner join saved_block
        on
            size_of_argument.rank = saved_block.rank
            and size_of_argument.device = saved_block.device
            and size_of_argument.units = saved_block.units
            and size_of_argument.op_start_ns > saved_block.start_ns
),

-- one row per op, argument size and candidate block
possible_block as (
    select * from previous_block
    union all
    select * from unsaved_block
    union all
    select
        latest_saved_block.rank,
        latest_saved_block.op_id,
        latest_saved_block.units,
        saved_block.block_id,
        2,
        saved_block.start_ns
    from latest_saved_block
    inner join saved_block
        on
            latest_saved_block.rank = saved_block.rank
            and latest_saved_block.device = saved_block.device
            and latest_saved_block.units = saved_block.units
            and saved_block.number <= latest_saved_block.number
            and saved_block.number > latest_saved_block.number - latest_saved_block.argument_count - 1
    where coalesce(saved_block.end_ns > latest_saved_block.op_start_ns, true)
),

-- one row per op, argument size and candidate block, ranked and without duplicates
ranked_block as (
    select
        rank,
        op_id,
        units,
        block_id,
        row_number() over (
            partition by rank, op_id, units order by min(priority), max(start_ns) desc, block_id
        ) as place
    from possible_block
    group by rank, op_id, units, block_id
)

select distinct
    light_argument.rank,
    light_argument.op_id,
    ranked_block.block_id
from light_argument
inner join ranked_block
    on
        light_argument.rank = ranked_block.rank
        and light_argument.op_id = ranked_block.op_id
        and light_argument.units = ranked_block.units
        and light_argument.place = ranked_block.place
