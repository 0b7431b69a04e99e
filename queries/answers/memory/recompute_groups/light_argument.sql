-- Tensor arguments of light ops, with their sizes.
--
-- :reads made_block, op
-- :column rank RANK
-- :column op_id BIGINT          the op
-- :column step STEP             of the op
-- :column device DEVICE         of the op's result
-- :column op_start_ns BIGINT    start of the op
-- :column units BIGINT          size, as in `made_block`
-- :column place BIGINT          number of the argument among the arguments of this size, from 1
with light_op as (
    select distinct
        rank,
        op_id,
        step,
        device,
        op_start_ns
    from made_block
    where is_light
),

-- one row per argument of a light op
argument as (
    select
        light_op.rank,
        light_op.op_id,
        light_op.step,
        light_op.device,
        light_op.op_start_ns,
        unnest(range(json_array_length(op.input_dims)::bigint)) as position,
        try_cast(op.input_dims -> position as bigint[]) as sizes,
        op.input_types ->> position as type_name
    from light_op
    inner join op on light_op.rank = op.rank and light_op.op_id = op.event_id
),

sized_argument as (
    select
        argument.*,
        (element_count(sizes) * bytes_of_dtype(type_name))::bigint as bytes,
        if(device < 0, bytes, (bytes + 511) // 512) as units
    from argument
    where len(sizes) > 0 and bytes > 0
)

select
    rank,
    op_id,
    step,
    device,
    op_start_ns,
    units,
    row_number() over (partition by rank, op_id, units order by position) as place
from sized_argument
