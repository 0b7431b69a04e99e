-- CPU ops by name, with their own time and that of all they call, on the CPU and on the GPU.
--
-- `total` counts an op with everything inside it, once where an op of the same name is inside another; `self` counts
-- what no inner op explains. GPU time is that of the work launched directly by the op (self) or anywhere inside it
-- (total). CPU time includes waiting. Totals of different ops overlap and do not add up; selfs do.
--
-- :param rank BIGINT = NULL            only this rank
-- :param step BIGINT = NULL            only this step
-- :param phase VARCHAR = NULL          only this phase
-- :param sort VARCHAR = 'gpu_self'     order by gpu_self, gpu_total, cpu_self or cpu_total time
-- :param limit BIGINT = 10             so many rows
-- :reads event, label, nesting, launch
-- :column name VARCHAR                 name of the op
-- :column count BIGINT                 calls
-- :column cpu_self_ns BIGINT           CPU time outside inner ops
-- :column cpu_total_ns BIGINT          CPU time with inner ops
-- :column gpu_self_ns BIGINT           duration of the GPU work it launched itself
-- :column gpu_total_ns BIGINT          duration of all GPU work launched inside it
-- :column cpu_self_pct DOUBLE          share of all ops' CPU self time
-- :column gpu_self_pct DOUBLE          share of the GPU time that ops launched; NULL without GPU work
with chosen as (
    select
        event.rank,
        event.event_id,
        event.name,
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns
    from event
    inner join nesting on event.rank = nesting.rank and event.event_id = nesting.event_id
    inner join label on event.rank = label.rank and event.event_id = label.event_id
    where
        event.category = 'cpu_op'
        and ($rank is null or event.rank = $rank)
        and ($step is null or label.step = $step)
        and ($phase is null or label.phase = $phase)
),

self_time as (
    select
        rank,
        op_id,
        sum(self_ns) as cpu_self_ns
    from nesting
    where op_id is not null
    group by rank, op_id
),

launched as (
    select
        launch.rank,
        launch.op_id,
        call.track_id,
        call.start_ns,
        event.dur_ns
    from launch
    inner join event on launch.rank = event.rank and launch.event_id = event.event_id
    inner join nesting as call on launch.rank = call.rank and coalesce(launch.runtime_id, launch.op_id) = call.event_id
    where launch.op_id is not null
),

gpu_self as (
    select
        rank,
        op_id,
        sum(dur_ns) as gpu_self_ns
    from launched
    group by rank, op_id
),

running as (
    select
        rank,
        track_id,
        start_ns,
        sum(sum(dur_ns)) over (partition by rank, track_id order by start_ns rows unbounded preceding) as until_here_ns
    from launched
    group by rank, track_id, start_ns
),

outermost as (
    select
        *,
        coalesce(
            start_ns >= max(end_ns) over (
                partition by rank, track_id, name order by start_ns, end_ns desc, event_id
                rows between unbounded preceding and 1 preceding
            ),
            true
        ) as is_outermost
    from chosen
),

at_end as (
    select
        outermost.*,
        coalesce(running.until_here_ns, 0) as gpu_until_end_ns
    from outermost
    asof left join running
        on
            outermost.rank = running.rank
            and outermost.track_id = running.track_id
            and outermost.end_ns > running.start_ns
),

at_start as (
    select
        at_end.*,
        coalesce(running.until_here_ns, 0) as gpu_until_start_ns
    from at_end
    asof left join running
        on at_end.rank = running.rank and at_end.track_id = running.track_id and at_end.start_ns > running.start_ns
),

grouped as (
    select
        at_start.name,
        count(*) as count,
        coalesce(sum(self_time.cpu_self_ns), 0)::bigint as cpu_self_ns,
        coalesce(sum(at_start.end_ns - at_start.start_ns) filter (where at_start.is_outermost), 0)::bigint
            as cpu_total_ns,
        coalesce(sum(gpu_self.gpu_self_ns), 0)::bigint as gpu_self_ns,
        coalesce(
            sum(at_start.gpu_until_end_ns - at_start.gpu_until_start_ns) filter (where at_start.is_outermost), 0
        )::bigint as gpu_total_ns
    from at_start
    left join self_time on at_start.rank = self_time.rank and at_start.event_id = self_time.op_id
    left join gpu_self on at_start.rank = gpu_self.rank and at_start.event_id = gpu_self.op_id
    group by at_start.name
)

select
    name,
    count,
    cpu_self_ns,
    cpu_total_ns,
    gpu_self_ns,
    gpu_total_ns,
    100.0 * cpu_self_ns / nullif(sum(cpu_self_ns) over (), 0) as cpu_self_pct,
    100.0 * gpu_self_ns / nullif(sum(gpu_self_ns) over (), 0) as gpu_self_pct
from grouped
order by
    case $sort
        when 'gpu_total' then gpu_total_ns
        when 'cpu_self' then cpu_self_ns
        when 'cpu_total' then cpu_total_ns
        else gpu_self_ns
    end desc,
    cpu_self_ns desc,
    name
limit $limit
