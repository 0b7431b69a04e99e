-- Outermost calls of code compiled by torch.compile, including the preceding cache lookup. The calls do not overlap.
--
-- :reads cpu_span, name_class, nesting
-- :column event_id BIGINT  the op `Torch-Compiled Region`
-- :column track_id BIGINT  thread
-- :column start_ns BIGINT  start; start of the cache lookup if it directly precedes the call
-- :column end_ns BIGINT    end
-- :column depth INTEGER    number of enclosing events on the thread, of the call or of the lookup, whichever is smaller
with compiled_op as (
    -- Calls of compiled code and cache lookups, with the previous of these ops on the thread.
    select
        nesting.event_id,
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns,
        nesting.depth,
        name_class.is_metadata as is_lookup,
        lag(name_class.is_metadata) over in_order as follows_lookup,
        lag(nesting.start_ns) over in_order as lookup_ns,
        lag(nesting.depth) over in_order as lookup_depth
    from cpu_span
    inner join name_class on cpu_span.class_id = name_class.class_id
    inner join nesting on cpu_span.event_id = nesting.event_id
    where
        name_class.category = 'cpu_op'
        and (is_compiled_region(name_class.name) or starts_with(name_class.name, 'TorchDynamo Cache'))
    window in_order as (partition by nesting.track_id order by nesting.start_ns, nesting.depth)
)

select
    event_id,
    track_id,
    case when follows_lookup then lookup_ns else start_ns end as start_ns,
    end_ns,
    case when follows_lookup then least(depth, lookup_depth) else depth end as depth
from compiled_op
where not is_lookup
qualify is_outermost(compiled_op.start_ns, compiled_op.end_ns, compiled_op.track_id, compiled_op.depth)
order by track_id, start_ns
