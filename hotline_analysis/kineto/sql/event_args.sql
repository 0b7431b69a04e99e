-- Events of which something found no column: their complete args, or the complete event.
with claimed as (
    select event_id, sum(claimed) as claimed
    from claims
    group by event_id
)

select
    batch.event_id,
    case when batch.arg_count > coalesce(
        claimed.claimed, (batch.correlation is not null)::integer + (batch.external_id is not null)::integer
    ) then batch.args end as args,
    case when batch.has_more then texts."text" end as fields
from batch
inner join texts on batch.event_id = texts.event_id
left join claimed on batch.event_id = claimed.event_id
where
    batch.has_more or batch.arg_count > coalesce(
        claimed.claimed, (batch.correlation is not null)::integer + (batch.external_id is not null)::integer
    )
order by batch.event_id
