-- How long light ops take: what they launch on a GPU, or they themselves where there is none.
--
-- :reads made_block, launch, nesting, event, gpu_op
-- :column rank BIGINT     process rank
-- :column op_id BIGINT    the op
-- :column name VARCHAR    its name
-- :column time_ns BIGINT  how long
with light_op as (
    select distinct
        made_block.rank,
        made_block.op_id,
        made_block.name,
        made_block.op_start_ns,
        made_block.op_dur_ns,
        nesting.track_id
    from made_block
    inner join nesting on made_block.rank = nesting.rank and made_block.op_id = nesting.event_id
    where made_block.is_light
),

launched as (
    select
        launch.rank,
        nesting.track_id,
        nesting.start_ns,
        event.dur_ns
    from launch
    inner join nesting on launch.rank = nesting.rank and launch.runtime_id = nesting.event_id
    inner join event on launch.rank = event.rank and launch.event_id = event.event_id
),

gpu_time as (
    select
        light_op.rank,
        light_op.op_id,
        sum(launched.dur_ns) as time_ns
    from launched
    asof inner join light_op
        on
            launched.rank = light_op.rank
            and launched.track_id = light_op.track_id
            and launched.start_ns >= light_op.op_start_ns
    where launched.start_ns < light_op.op_start_ns + light_op.op_dur_ns
    group by light_op.rank, light_op.op_id
)

select
    light_op.rank,
    light_op.op_id,
    light_op.name,
    if(light_op.rank in (select rank from gpu_op), coalesce(gpu_time.time_ns, 0), light_op.op_dur_ns)::bigint as time_ns
from light_op
left join gpu_time on light_op.rank = gpu_time.rank and light_op.op_id = gpu_time.op_id
