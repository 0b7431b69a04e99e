-- CPU ops by name, with self time and total time on the CPU and the GPU.
--
-- `total` counts an op with everything inside; nested ops of the same name count once. `self` is the time outside inner
-- ops. GPU self time is the work launched directly by the op; GPU total time also includes launches of inner ops. CPU
-- time includes waiting. Self times add up; totals of different ops overlap.
--
-- :param rank BIGINT = NULL       only this rank
-- :param step BIGINT = NULL       only this step
-- :param phase PHASE = NULL       only this phase
-- :param module VARCHAR = NULL    only ops in this module or its submodules, by path
-- :param sort VARCHAR in (gpu_self, gpu_total, cpu_self, cpu_total) = 'gpu_self'
--                                 column to order by
-- :param limit BIGINT >= 0 = 10   maximum number of rows
-- :reads event, label, nesting, launch, model_op
-- :column name VARCHAR                 name of the op
-- :column count BIGINT                 calls
-- :column cpu_self_ns BIGINT           CPU time outside inner ops
-- :column cpu_total_ns BIGINT          CPU time with inner ops
-- :column gpu_self_ns BIGINT           duration of the GPU work launched directly by the op
-- :column gpu_total_ns BIGINT          duration of all GPU work launched inside the op
-- :column cpu_self_pct DOUBLE          share of the CPU self time of all ops
-- :column gpu_self_pct DOUBLE          share of the GPU time launched by ops; NULL without GPU work
-- :column example_rank BIGINT          rank of the longest call
-- :column example_event_id BIGINT      event of the longest call

-- one row per selected call of an op
with op as (
    select
        rank,
        event_id,
        name
    from event
    where
        category = 'cpu_op'
        and is_asked($rank, rank)
        and $step is null
        and $phase is null
        and $module is null
    union all
    select
        event.rank,
        event.event_id,
        event.name
    from event
    inner join label on event.rank = label.rank and event.event_id = label.event_id
    left join model_op on label.rank = model_op.rank and label.module_id = model_op.module_id
    where
        event.category = 'cpu_op'
        and is_asked($rank, event.rank)
        and ($step is not null or $phase is not null or $module is not null)
        and is_asked($step, label.step)
        and is_asked($phase, label.phase)
        and in_module(model_op.path, $module)
),

-- one row per op name: CPU self time, calls and the longest call
cpu_self as (
    select
        op.name,
        sum(nesting.self_ns)::bigint as cpu_self_ns,
        count(*) filter (where nesting.event_id = nesting.op_id) as count,
        arg_max(
            {'rank': nesting.rank, 'event_id': nesting.event_id},
            (nesting.end_ns - nesting.start_ns, -nesting.rank, -nesting.event_id)
        ) filter (where nesting.event_id = nesting.op_id) as longest
    from nesting
    inner join op on nesting.rank = op.rank and nesting.op_id = op.event_id
    group by op.name
),

-- one row per GPU event launched by an op: the thread and time of the launch, and the duration
launched_work as (
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
        op.name,
        sum(launched_work.dur_ns)::bigint as gpu_self_ns
    from launched_work
    inner join op on launched_work.rank = op.rank and launched_work.op_id = op.event_id
    group by op.name
),

-- one row per op name, with CPU and GPU self time
self_time as (
    select
        cpu_self.name,
        cpu_self.count,
        cpu_self.longest,
        cpu_self.cpu_self_ns,
        coalesce(gpu_self.gpu_self_ns, 0) as gpu_self_ns,
        100.0 * cpu_self.cpu_self_ns / nullif(sum(cpu_self.cpu_self_ns) over (), 0) as cpu_self_pct,
        100.0 * coalesce(gpu_self.gpu_self_ns, 0) / nullif(sum(gpu_self.gpu_self_ns) over (), 0) as gpu_self_pct
    from cpu_self
    left join gpu_self on cpu_self.name = gpu_self.name
),

-- Totals are expensive. When sorting by self time, compute totals only for the rows of the result.
shown_op as (
    select *
    from self_time
    order by
        case $sort when 'cpu_self' then cpu_self_ns when 'gpu_total' then 0 when 'cpu_total' then 0 else gpu_self_ns end
        desc,
        cpu_self_ns desc,
        name
    limit case when $sort in ('gpu_total', 'cpu_total') then null else $limit end
),

-- one row per call of a shown op
shown_call as (
    select
        op.rank,
        op.name,
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns,
        is_outermost(
            nesting.start_ns, nesting.end_ns, (op.rank, nesting.track_id, op.name), (-nesting.end_ns, op.event_id)
        ) as is_outermost
    from op
    inner join shown_op on op.name = shown_op.name
    inner join nesting on op.rank = nesting.rank and op.event_id = nesting.event_id
),

-- Starts and ends of these calls, and the launches, in order of time. A launch counts from its start.
point as (
    select
        rank,
        track_id,
        unnest([start_ns, end_ns]) as at_ns,
        false as is_launch,
        name,
        unnest([-1, 1]) as sign,
        0::bigint as dur_ns
    from shown_call
    where is_outermost
    union all
    select
        rank,
        track_id,
        start_ns,
        true,
        null,
        null,
        dur_ns
    from launched_work
),

running_total as (
    select
        name,
        sign,
        at_ns,
        sum(dur_ns) over (
            partition by rank, track_id order by at_ns, is_launch rows unbounded preceding
        ) as gpu_until_ns
    from point
),

total as (
    select
        name,
        sum(sign * at_ns)::bigint as cpu_total_ns,
        sum(sign * gpu_until_ns)::bigint as gpu_total_ns
    from running_total
    where name is not null
    group by name
)

select
    shown_op.name,
    shown_op.count,
    shown_op.cpu_self_ns,
    total.cpu_total_ns,
    shown_op.gpu_self_ns,
    total.gpu_total_ns,
    shown_op.cpu_self_pct,
    shown_op.gpu_self_pct,
    shown_op.longest.rank as example_rank,
    shown_op.longest.event_id as example_event_id
from shown_op
inner join total on shown_op.name = total.name
order by
    case $sort
        when 'gpu_total' then total.gpu_total_ns
        when 'cpu_self' then shown_op.cpu_self_ns
        when 'cpu_total' then total.cpu_total_ns
        else shown_op.gpu_self_ns
    end desc,
    shown_op.cpu_self_ns desc,
    shown_op.name
limit $limit
