-- Communication time overlapped by computation, and exposed communication time.
--
-- Communication is attributed to the step, phase and module of its launch. If two collectives run at once, the time
-- goes to the collective that started first, so every grouping adds up to the time with running communication.
-- Communication is overlapped while a computation kernel runs on the same device, otherwise exposed. Copies hide no
-- communication.
--
-- `hideable_ns` is an upper bound: the exposed time that would fit beside the computation that ran without
-- communication. Data dependencies of the collective may prevent this.
--
-- :param by VARCHAR in (rank, step, phase, module, collective, event) = 'rank'
--                                one row per value of this column; a collective is a kernel name
-- :param rank BIGINT = NULL      only this rank
-- :param device BIGINT = NULL    only this device
-- :param step BIGINT = NULL      only work launched in this step
-- :param phase PHASE = NULL      only work launched in this phase
-- :param module VARCHAR = NULL   only work launched in this module or its submodules, by path
-- :reads gpu_event, gpu_state
-- :column rank RANK
-- :column device DEVICE           -1 without a device
-- :column step STEP               NULL if not grouped by step or event, or outside every step
-- :column phase PHASE             NULL if not grouped by phase or event, or unknown
-- :column module_path VARCHAR     module; NULL if not grouped by module or event, or unknown
-- :column name VARCHAR            short name of the kernel; NULL if not grouped by collective or event
-- :column event_id BIGINT         kernel; NULL if not grouped by event
-- :column count BIGINT            number of communication kernels
-- :column communication_ns BIGINT time in which communication ran
-- :column overlapped_ns BIGINT    communication time with computation at the same time
-- :column exposed_ns BIGINT       communication time without computation
-- :column overlap_pct DOUBLE      overlapped time as a share of communication time; NULL without communication
-- :column hideable_ns BIGINT      upper bound of the exposed time that fits beside computation without communication;
--                                 NULL if grouped by module, collective or event

-- one row per computation or communication kernel, with the values of the selected columns
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
    from gpu_event
    where
        class in ('computation', 'communication')
        and dur_ns > 0
        and is_asked($rank, rank)
        and is_asked($device, device)
),

work_reach as (
    select
        *,
        max(end_ns) over (
            partition by rank, device, class order by start_ns, event_id rows unbounded preceding
        ) as reached_ns
    from work
),

exclusive_work as (
    select
        *,
        greatest(start_ns, coalesce(
            lag(reached_ns) over (partition by rank, device, class order by start_ns, event_id), start_ns
        )) as own_start_ns
    from work_reach
),

-- one row per state of a device, with the time of computation and communication before it
device_state as (
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

-- one row per start or end of a selected kernel's own time
edge as (
    select
        rank,
        device,
        event_id,
        own_start_ns as at_ns,
        -1 as sign
    from exclusive_work
    where is_chosen and end_ns > own_start_ns
    union all
    select
        rank,
        device,
        event_id,
        end_ns,
        1
    from exclusive_work
    where is_chosen and end_ns > own_start_ns
),

-- Time of the other class within the event's own time: the difference of two running totals.
event_overlap as (
    select
        edge.rank,
        edge.event_id,
        sum(edge.sign * (
            device_state.computation_before_ns
            + case when device_state.computation then edge.at_ns - device_state.start_ns else 0 end
        )) as computation_ns,
        sum(edge.sign * (
            device_state.communication_before_ns
            + case when device_state.communication then edge.at_ns - device_state.start_ns else 0 end
        )) as communication_ns
    from edge
    asof inner join device_state
        on edge.rank = device_state.rank and edge.device = device_state.device and edge.at_ns >= device_state.start_ns
    group by edge.rank, edge.event_id
),

-- one row per group of the result
event_group as (
    select
        exclusive_work.rank,
        exclusive_work.device,
        exclusive_work.step,
        exclusive_work.phase,
        exclusive_work.module_path,
        exclusive_work.name,
        exclusive_work.listed_id as event_id,
        count(*) filter (where exclusive_work.class = 'communication') as count,
        coalesce(sum(event_overlap.communication_ns) filter (where exclusive_work.class = 'communication'), 0)::bigint
            as communication_ns,
        coalesce(sum(event_overlap.computation_ns) filter (where exclusive_work.class = 'communication'), 0)::bigint
            as overlapped_ns,
        coalesce(sum(event_overlap.computation_ns - event_overlap.communication_ns) filter (
            where exclusive_work.class = 'computation'
        ), 0)::bigint as alone_ns
    from exclusive_work
    left join event_overlap
        on exclusive_work.rank = event_overlap.rank and exclusive_work.event_id = event_overlap.event_id
    where exclusive_work.is_chosen
    group by
        exclusive_work.rank, exclusive_work.device, exclusive_work.step, exclusive_work.phase,
        exclusive_work.module_path, exclusive_work.name, exclusive_work.listed_id
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
from event_group
where count > 0
order by rank, device, step nulls last, exposed_ns desc, phase, module_path, name, event_id
