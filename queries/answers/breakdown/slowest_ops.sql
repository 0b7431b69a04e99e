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
-- :reads cpu_event, gpu_event
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
        name,
        track_id,
        start_ns,
        end_ns,
        self_ns,
        op_id
    from cpu_event
    where
        category = 'cpu_op'
        and is_asked($rank, rank)
        and is_asked($step, step)
        and is_asked($phase, phase)
        and in_module(module_path, $module)
),

-- one row per op name: CPU self time, calls and the longest call
cpu_self as (
    select
        name,
        sum(self_ns)::bigint as cpu_self_ns,
        count(event_id) as count,
        arg_max(
            {'rank': rank, 'event_id': event_id}, (dur_ns, -rank, -event_id)
        ) filter (where event_id is not null) as longest
    from (
        -- One row per call of an op, and per other event whose innermost op is such a call: the self time.
        select
            name,
            self_ns,
            rank,
            event_id,
            end_ns - start_ns as dur_ns
        from op
        where op_id = event_id
        union all
        select
            op.name,
            cpu_event.self_ns,
            null,
            null,
            null
        from cpu_event
        inner join op on cpu_event.rank = op.rank and cpu_event.op_id = op.event_id
        where cpu_event.op_id != cpu_event.event_id
    ) as own_time
    group by name
),

-- one row per GPU event launched by an op: the thread and time of the launch, and the duration
launched_work as (
    select
        rank,
        op_id,
        call_track_id as track_id,
        call_start_ns as start_ns,
        dur_ns
    from gpu_event
    where op_id is not null and call_track_id is not null
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
        op.track_id,
        op.start_ns,
        op.end_ns,
        is_outermost(op.start_ns, op.end_ns, (op.rank, op.track_id, op.name), (-op.end_ns, op.event_id))
            as is_outermost
    from op
    inner join shown_op on op.name = shown_op.name
),

cpu_total as (
    select
        name,
        sum(end_ns - start_ns)::bigint as cpu_total_ns
    from shown_call
    where is_outermost
    group by name
),

running_total as (
    select
        name,
        sign,
        sum(dur_ns) over (
            partition by rank, track_id order by at_ns, is_launch rows unbounded preceding
        ) as gpu_until_ns
    from (
        -- Starts and ends of these calls on threads with launches, and the launches. A launch counts from its start.
        select
            rank,
            track_id,
            unnest([start_ns, end_ns]) as at_ns,
            false as is_launch,
            name,
            unnest([-1, 1]) as sign,
            0::bigint as dur_ns
        from shown_call
        where is_outermost and (rank, track_id) in (select (rank, track_id) from launched_work)
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
    ) as point
),

gpu_total as (
    select
        name,
        sum(sign * gpu_until_ns)::bigint as gpu_total_ns
    from running_total
    where name is not null
    group by name
)

select
    shown_op.name,
    shown_op.count,
    shown_op.cpu_self_ns,
    cpu_total.cpu_total_ns,
    shown_op.gpu_self_ns,
    coalesce(gpu_total.gpu_total_ns, 0) as gpu_total_ns,
    shown_op.cpu_self_pct,
    shown_op.gpu_self_pct,
    shown_op.longest.rank as example_rank,
    shown_op.longest.event_id as example_event_id
from shown_op
inner join cpu_total on shown_op.name = cpu_total.name
left join gpu_total on shown_op.name = gpu_total.name
order by
    case $sort
        when 'gpu_total' then coalesce(gpu_total.gpu_total_ns, 0)
        when 'cpu_self' then shown_op.cpu_self_ns
        when 'cpu_total' then cpu_total.cpu_total_ns
        else shown_op.gpu_self_ns
    end desc,
    shown_op.cpu_self_ns desc,
    shown_op.name
limit $limit
