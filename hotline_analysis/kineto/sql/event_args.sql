-- Events with content outside the columns: the complete args, or the complete event. `claims` counts the args of each
-- event stored in columns of other tables. The ids are columns of every event.
with event_claim as (
    select
        event_id,
        sum(claimed) as claimed
    from claims
    group by event_id
),

flagged_event as (
    select
        batch.event_id,
        batch.args,
        batch.has_more,
        batch.arg_count > coalesce(event_claim.claimed, 0) + (batch.correlation is not null)::integer
        + (batch.external_id is not null)::integer as has_more_args
    from batch
    left join event_claim on batch.event_id = event_claim.event_id
)

select
    flagged_event.event_id,
    case when flagged_event.has_more_args then flagged_event.args end as args,
    case when flagged_event.has_more then texts."text" end as fields
from flagged_event
inner join texts on flagged_event.event_id = texts.event_id
where flagged_event.has_more or flagged_event.has_more_args
order by flagged_event.event_id
