-- Busy time of a device split over events, each instant to one event. Sums are the busy time of the device.
--
-- Computation takes precedence over communication, and communication over copies and memsets. Within a class, the time
-- goes to the event that started first.
--
-- :reads gpu_event, gpu_state
-- :column rank RANK
-- :column event_id BIGINT  the GPU event
-- :column owned_ns BIGINT  part of the duration assigned to the event

-- one row per event, with the latest end before it in its class
with event_so_far as (
    select
        rank,
        device,
        event_id,
        class,
        start_ns,
        end_ns,
        max(end_ns) over (
            partition by rank, device, class
            order by start_ns, event_id rows between unbounded preceding and 1 preceding
        ) as reached_ns
    from gpu_event
),

-- Events, without the time of earlier events of their class.
own_part as (
    select
        rank,
        device,
        event_id,
        class,
        end_ns,
        least(end_ns, greatest(start_ns, coalesce(reached_ns, start_ns))) as own_start_ns
    from event_so_far
),

-- Total time of the classes with precedence up to each change of the device's state.
run_time as (
    select
        rank,
        device,
        start_ns,
        computation,
        computation or communication as either,
        sum(if(computation, end_ns - start_ns, 0)) over before as computation_before_ns,
        sum(if(computation or communication, end_ns - start_ns, 0)) over before as either_before_ns
    from gpu_state
    window before as (
        partition by rank, device order by start_ns rows between unbounded preceding and 1 preceding
    )
),

-- one row per start or end of the own time of communication, copies and memsets
edge as (
    select
        rank,
        device,
        event_id,
        class,
        unnest([own_start_ns, end_ns]) as at_ns,
        unnest([-1, 1]) as sign
    from own_part
    where class != 'computation' and end_ns > own_start_ns
),

-- Time of the classes with precedence inside an event's own time: the difference of two running totals.
hidden_time as (
    select
        edge.rank,
        edge.event_id,
        sum(edge.sign * if(
            edge.class = 'communication',
            coalesce(run_time.computation_before_ns, 0) + if(run_time.computation, edge.at_ns - run_time.start_ns, 0),
            coalesce(run_time.either_before_ns, 0) + if(run_time.either, edge.at_ns - run_time.start_ns, 0)
        )) as hidden_ns
    from edge
    asof inner join run_time
        on edge.rank = run_time.rank and edge.device = run_time.device and edge.at_ns >= run_time.start_ns
    group by edge.rank, edge.event_id
)

select
    own_part.rank,
    own_part.event_id,
    (own_part.end_ns - own_part.own_start_ns - coalesce(hidden_time.hidden_ns, 0))::bigint as owned_ns
from own_part
left join hidden_time on own_part.rank = hidden_time.rank and own_part.event_id = hidden_time.event_id
