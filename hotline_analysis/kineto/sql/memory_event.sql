-- Allocations and releases.
with parsed_event as (
    select
        event_id,
        from_json(
            args,
            '{"Addr":"BIGINT","Bytes":"BIGINT","Device Type":"BIGINT","Device Id":"BIGINT",
              "Total Allocated":"BIGINT","Total Reserved":"BIGINT","Ev Idx":"BIGINT","finished":"BOOLEAN"}'
        ) as a
    from batch
    where category = 'cpu_instant_event' and contains(args, '"Bytes"')
)

select
    event_id,
    a."Addr" as address,
    a."Bytes" as bytes,
    a."Device Type" as device_type,
    a."Device Id" as device_id,
    a."Total Allocated" as total_allocated_bytes,
    a."Total Reserved" as total_reserved_bytes,
    a."Ev Idx" as profiler_index,
    a.finished,
    (a.finished is not null)::integer
    + (a."Addr" is not null)::integer + (a."Bytes" is not null)::integer + (a."Device Type" is not null)::integer
    + (a."Device Id" is not null)::integer + (a."Total Allocated" is not null)::integer
    + (a."Total Reserved" is not null)::integer + (a."Ev Idx" is not null)::integer as claimed
from parsed_event
