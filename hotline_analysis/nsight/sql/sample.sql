-- CPU samples: a moment of a thread, with the functions on its stack.
--
-- The event is one of the trace format's sample events (`ph` is `P`), named by the innermost function. Samples without
-- a stack tell nothing and are left out.
select
    raw.event_id,
    'P' as ph,
    'cpu_sample' as category,
    stack.name,
    process_of(raw."globalTid")::varchar as pid,
    thread_of(raw."globalTid")::varchar as tid,
    start_in_time(raw."start") as start_ns,
    null::bigint as dur_ns,
    null::bigint as correlation,
    json_object('stack', stack.stack) as args
from raw
inner join (
    select
        id,
        min(stack_id) as stack_id
    from sample_stack
    group by id
) as sample_stack on raw.id = sample_stack.id
inner join stack on sample_stack.stack_id = stack.stack_id
