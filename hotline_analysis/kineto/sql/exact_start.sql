-- Exact start times for starts rounded by a double. Among the numbers after `"ts":` in the text, the number closest to
-- the rounded time is the start. A double of this size is at most half a microsecond off.
with candidate as (
    select
        batch.event_id,
        batch.start_ns,
        unnest(regexp_extract_all(texts."text", '"ts"\s*:\s*"?\s*(-?[0-9.eE+]+)', 1)) as digits
    from batch
    inner join texts on batch.event_id = texts.event_id
    where batch.is_rounded
),

exact_candidate as (
    select
        event_id,
        start_ns as rounded_ns,
        try_cast(try_cast(digits as decimal(38, 3)) * 1000 as bigint) as start_ns
    from candidate
)

select
    event_id,
    arg_min(start_ns, abs(start_ns - rounded_ns)) as start_ns
from exact_candidate
where abs(start_ns - rounded_ns) <= 1000
group by event_id
