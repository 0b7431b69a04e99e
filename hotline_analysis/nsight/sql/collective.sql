-- Collectives with the size of their message, from the payloads of NCCL's ranges.
--
-- NCCL declares the names of the fields (src/include/nvtx_payload_schemas.h), and the export repeats them in
-- `NVTX_PAYLOAD_SCHEMA_ENTRIES`. The size is in bytes, so an element here is a byte. The range that creates a
-- communicator has the number of its ranks.
select
    event_id,
    name,
    'byte' as dtype,
    try_cast(try_cast(nccl_fields ->> '$."Message size [bytes]"' as ubigint) as bigint) as in_elements,
    null::bigint as out_elements,
    try_cast(nccl_fields ->> '$."No. of ranks"' as uinteger)::bigint as group_size,
    nccl_fields ->> '$."NCCL communicator ID"' as group_name,
    null::varchar as group_description,
    null::varchar as group_ranks,
    null::varchar as in_split,
    null::varchar as out_split,
    coalesce(
        try_cast(nccl_fields ->> '$."Peer rank"' as bigint), try_cast(nccl_fields ->> '$."Root"' as bigint)
    ) as peer,
    null::bigint as global_rank_start,
    null::bigint as global_rank_stride
from batch
where nccl_fields is not null
