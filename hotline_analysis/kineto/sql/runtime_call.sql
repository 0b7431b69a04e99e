-- Calls of the runtime and driver APIs. Only AMD's calls have args other than the function's number.
with parsed_event as (
    select
        event_id,
        from_json(
            args,
            '{"cbid":"BIGINT","cid":"BIGINT","kernel":"VARCHAR","grid":"VARCHAR","block":"VARCHAR",
              "shared memory":"BIGINT","src":"VARCHAR","dst":"VARCHAR","bytes":"BIGINT","kind":"VARCHAR"}'
        ) as a
    from batch
    where category in ('cuda_runtime', 'cuda_driver') and args is not null
)

select
    event_id,
    coalesce(a.cbid, a.cid) as callback_id,
    a.kernel,
    a.grid,
    a.block,
    a."shared memory" as shared_memory_bytes,
    a.src as source,
    a.dst as destination,
    a.bytes,
    a.kind,
    (a.cbid is not null or a.cid is not null)::integer + (a.kernel is not null)::integer
    + (a.grid is not null)::integer + (a.block is not null)::integer + (a."shared memory" is not null)::integer
    + (a.src is not null)::integer + (a.dst is not null)::integer + (a.bytes is not null)::integer
    + (a.kind is not null)::integer as claimed
from parsed_event
