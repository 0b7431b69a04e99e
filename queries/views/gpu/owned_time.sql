-- The time of a device in which it is busy, each moment given to one event: computation before communication before
-- copies and memsets, and of the same class to the one that started first. Sums are the busy time of the device.
--
-- :reads gpu_event, gpu_state
-- :column rank BIGINT      process rank
-- :column event_id BIGINT  the GPU event
-- :column owned_ns BIGINT  the part of its duration that is given to it
with reached as (
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

-- Events without the time in which an earlier one of their class runs.
own as (
    select
        rank,
        device,
        event_id,
        class,
        end_ns,
        least(end_ns, greatest(start_ns, coalesce(reached_ns, start_ns))) as own_start_ns
    from reached
),

-- How long a class that goes first has run until each change of the device's state.
running as (
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

edge as (
    select
        rank,
        device,
        event_id,
        class,
        unnest([own_start_ns, end_ns]) as at_ns,
        unnest([-1, 1]) as sign
    from own
    where class != 'computation' and end_ns > own_start_ns
),

-- How long such a class runs inside of an event's own time: the difference of two running totals.
hidden as (
    select
        edge.rank,
        edge.event_id,
        sum(edge.sign * if(
            edge.class = 'communication',
            coalesce(running.computation_before_ns, 0) + if(running.computation, edge.at_ns - running.start_ns, 0),
            coalesce(running.either_before_ns, 0) + if(running.either, edge.at_ns - running.start_ns, 0)
        )) as hidden_ns
    from edge
    asof inner join running
        on edge.rank = running.rank and edge.device = running.device and edge.at_ns >= running.start_ns
    group by edge.rank, edge.event_id
)

select
    own.rank,
    own.event_id,
    (own.end_ns - own.own_start_ns - coalesce(hidden.hidden_ns, 0))::bigint as owned_ns
from own
left join hidden on own.rank = hidden.rank and own.event_id = hidden.event_id
