-- How much of the communication runs beside computation, and how much keeps the device from computing.
--
-- Communication counts to the step, phase and module that launched it. Where two collectives run at once, the one that
-- started first has the time, so every way of grouping adds up to the time in which communication ran. It is overlapped
-- while a computation kernel runs on the same device, else exposed. Copies hide no communication. At best, the exposed
-- time could run beside the computation that runs without communication now (`hideable_ns`); whether it may depends on
-- what the collective waits for.
--
-- :param by VARCHAR in (rank, step, phase, module, collective, event) = 'rank'
--                                what a row is; a collective is a name
-- :param rank BIGINT = NULL      only this rank
-- :param device BIGINT = NULL    only this device
-- :param step BIGINT = NULL      only work launched in this step
-- :param phase PHASE = NULL
--                                only work launched in this phase
-- :param module VARCHAR = NULL   only work launched in this module or one in it, by path
-- :reads gpu_work, gpu_state
-- :column rank BIGINT             process rank
-- :column device BIGINT           device number; -1 when the events name none
-- :column step BIGINT             the step; NULL if not asked for, or outside every step
-- :column phase VARCHAR           the phase; NULL if not asked for, or unknown
-- :column module_path VARCHAR     the module; NULL if not asked for, or unknown
-- :column name VARCHAR            short name of the kernel; NULL if not asked for
-- :column event_id BIGINT         the kernel; NULL if not asked for
-- :column count BIGINT            communication kernels
-- :column communication_ns BIGINT time in which communication ran
-- :column overlapped_ns BIGINT    of it, beside computation
-- :column exposed_ns BIGINT       of it, without computation
-- :column overlap_pct DOUBLE      overlapped time as a share of communication; NULL without any
-- :column hideable_ns BIGINT      of the exposed time, at most so much fits beside computation that now runs alone
with work as (
    select
        rank,
        device,
        event_id,
        start_ns,
        end_ns,
        class,
        case when $by in ('step', 'event') then step end as step,
        case when $by in ('phase', 'event') then phase end as phase,
        case when $by in ('module', 'event') then module_path end as module_path,
        case when $by in ('collective', 'event') then short_name end as name,
        case when $by = 'event' then event_id end as listed_id,
        is_asked($step, step)
        and is_asked($phase, phase)
        and in_module(module_path, $module) as is_chosen
    from gpu_work
    where
        class in ('computation', 'communication')
        and dur_ns > 0
        and is_asked($rank, rank)
        and is_asked($device, device)
),

reached as (
    select
        *,
        max(end_ns) over (
            partition by rank, device, class order by start_ns, event_id rows unbounded preceding
        ) as reached_ns
    from work
),

own as (
    select
        *,
        greatest(start_ns, coalesce(
            lag(reached_ns) over (partition by rank, device, class order by start_ns, event_id), start_ns
        )) as own_start_ns
    from reached
),

running as (
    select
        rank,
        device,
        start_ns,
        computation,
        communication,
        sum(case when computation then end_ns - start_ns else 0 end) over in_order
        - case when computation then end_ns - start_ns else 0 end as computation_before_ns,
        sum(case when communication then end_ns - start_ns else 0 end) over in_order
        - case when communication then end_ns - start_ns else 0 end as communication_before_ns
    from gpu_state
    where is_asked($rank, rank)
    window in_order as (partition by rank, device order by start_ns rows unbounded preceding)
),

edge as (
    select
        rank,
        device,
        event_id,
        own_start_ns as at_ns,
        -1 as sign
    from own
    where is_chosen and end_ns > own_start_ns
    union all
    select
        rank,
        device,
        event_id,
        end_ns,
        1
    from own
    where is_chosen and end_ns > own_start_ns
),

-- How long the other class ran inside the event's own time: the difference of two running totals.
inside as (
    select
        edge.rank,
        edge.event_id,
        sum(edge.sign * (
            running.computation_before_ns
            + case when running.computation then edge.at_ns - running.start_ns else 0 end
        )) as computation_ns,
        sum(edge.sign * (
            running.communication_before_ns
            + case when running.communication then edge.at_ns - running.start_ns else 0 end
        )) as communication_ns
    from edge
    asof inner join running
        on edge.rank = running.rank and edge.device = running.device and edge.at_ns >= running.start_ns
    group by edge.rank, edge.event_id
),

grouped as (
    select
        own.rank,
        own.device,
        own.step,
        own.phase,
        own.module_path,
        own.name,
        own.listed_id as event_id,
        count(*) filter (where own.class = 'communication') as count,
        coalesce(sum(inside.communication_ns) filter (where own.class = 'communication'), 0)::bigint
            as communication_ns,
        coalesce(sum(inside.computation_ns) filter (where own.class = 'communication'), 0)::bigint as overlapped_ns,
        coalesce(sum(inside.computation_ns - inside.communication_ns) filter (
            where own.class = 'computation'
        ), 0)::bigint as alone_ns
    from own
    left join inside on own.rank = inside.rank and own.event_id = inside.event_id
    where own.is_chosen
    group by own.rank, own.device, own.step, own.phase, own.module_path, own.name, own.listed_id
)

select
    rank,
    device,
    step,
    phase,
    module_path,
    name,
    event_id,
    count,
    communication_ns,
    overlapped_ns,
    communication_ns - overlapped_ns as exposed_ns,
    100.0 * overlapped_ns / nullif(communication_ns, 0) as overlap_pct,
    case when $by in ('rank', 'step', 'phase') then least(communication_ns - overlapped_ns, alone_ns) end
        as hideable_ns
from grouped
where count > 0
order by rank, device, step nulls last, exposed_ns desc, phase, module_path, name, event_id
