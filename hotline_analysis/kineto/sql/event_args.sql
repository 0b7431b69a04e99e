-- Events of which something found no column: their complete args, or the complete event. `claims` counts the args of
-- each event that found a column of the other tables; the ids are columns of every event.
with claimed as (
    select
        event_id,
        sum(claimed) as claimed
    from claims
    group by event_id
),

counted as (
    select
        batch.event_id,
        batch.args,
        batch.has_more,
        batch.arg_count > coalesce(claimed.claimed, 0) + (batch.correlation is not null)::integer
        + (batch.external_id is not null)::integer as has_more_args
    from batch
    left join claimed on batch.event_id = claimed.event_id
)

select
    counted.event_id,
    case when counted.has_more_args then counted.args end as args,
    case when counted.has_more then texts."text" end as fields
from counted
inner join texts on counted.event_id = texts.event_id
where counted.has_more or counted.has_more_args
order by counted.event_id
