-- What light ops are given: blocks of the sizes of their arguments that are alive.
--
-- The result of the op before comes first. Then what is not saved, the latest first: the program still needs it, or it
-- would be gone. What is saved lives anyway, so it comes last, the latest first. An argument without a block is older
-- than the trace, such as a parameter.
--
-- :reads made_block, light_argument
-- :column rank BIGINT      process rank
-- :column op_id BIGINT     the op
-- :column block_id BIGINT  what it is given
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

-- The block that was made last before each op, of any size.
before_op as (
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

unsaved as (
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

latest_saved as (
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

possible as (
    select * from before_op
    union all
    select * from unsaved
    union all
    select
        latest_saved.rank,
        latest_saved.op_id,
        latest_saved.units,
        saved_block.block_id,
        2,
        saved_block.start_ns
    from latest_saved
    inner join saved_block
        on
            latest_saved.rank = saved_block.rank
            and latest_saved.device = saved_block.device
            and latest_saved.units = saved_block.units
            and saved_block.number <= latest_saved.number
            and saved_block.number > latest_saved.number - latest_saved.argument_count - 1
    where coalesce(saved_block.end_ns > latest_saved.op_start_ns, true)
),

distinct_possible as (
    select
        rank,
        op_id,
        units,
        block_id,
        row_number() over (
            partition by rank, op_id, units order by min(priority), max(start_ns) desc, block_id
        ) as place
    from possible
    group by rank, op_id, units, block_id
)

select distinct
    light_argument.rank,
    light_argument.op_id,
    distinct_possible.block_id
from light_argument
inner join distinct_possible
    on
        light_argument.rank = distinct_possible.rank
        and light_argument.op_id = distinct_possible.op_id
        and light_argument.units = distinct_possible.units
        and light_argument.place = distinct_possible.place
