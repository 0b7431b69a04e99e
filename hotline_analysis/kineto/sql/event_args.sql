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
    batch.fields
from batch
left join claimed on batch.event_id = claimed.event_id
where
    batch.fields is not null or batch.arg_count > coalesce(
        claimed.claimed, (batch.correlation is not null)::integer + (batch.external_id is not null)::integer
    )
order by batch.event_id
