-- Duration of light ops: the launched GPU work, or the CPU time on ranks without GPU work.
--
-- :reads gpu_event, cpu_event, made_block
-- :column rank RANK
-- :column op_id BIGINT    the op
-- :column name VARCHAR    name of the op
-- :column time_ns BIGINT  duration

-- one row per light op, with its thread
with light_op as (
    select distinct
        made_block.rank,
        made_block.op_id,
        made_block.name,
        made_block.op_start_ns,
        made_block.op_dur_ns,
        cpu_event.track_id
    from made_block
    inner join cpu_event on made_block.rank = cpu_event.rank and made_block.op_id = cpu_event.event_id
    where made_block.is_light
),

launched_work as (
    select
        rank,
        call_track_id as track_id,
        call_start_ns as start_ns,
        dur_ns
    from gpu_event
    where runtime_id is not null
),

-- one row per light op with launches: the duration of its GPU work
gpu_time as (
    select
        light_op.rank,
        light_op.op_id,
        sum(launched_work.dur_ns) as time_ns
    from launched_work
    asof inner join light_op
        on
            launched_work.rank = light_op.rank
            and launched_work.track_id = light_op.track_id
            and launched_work.start_ns >= light_op.op_start_ns
    where launched_work.start_ns < light_op.op_start_ns + light_op.op_dur_ns
    group by light_op.rank, light_op.op_id
)

select
    light_op.rank,
    light_op.op_id,
    light_op.name,
    if(
        light_op.rank in (select rank from gpu_event), coalesce(gpu_time.time_ns, 0), light_op.op_dur_ns
    )::bigint as time_ns
from light_op
left join gpu_time on light_op.rank = gpu_time.rank and light_op.op_id = gpu_time.op_id
