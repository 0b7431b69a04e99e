-- `cpu_span` again, with what sticks out of its parent cut there, and all in it: old traces round to microseconds, and
-- clocks jump. Only the tree uses these times.
--
-- Where spans cross, depth counts too many open ones until the cut, so that later parents are wrong as well. Hence only
-- what sticks out of a sound parent is cut, and the tree is made and asked again.
--
-- :writes cpu_span
-- :reads cpu_span, nesting
with recursive outermost as (
    select
        inside.event_id,
        inside.end_ns
    from nesting as inside
    inner join cpu_span as own on inside.event_id = own.event_id
    inner join nesting as parent on inside.parent_id = parent.event_id
    inner join cpu_span as parent_own on parent.event_id = parent_own.event_id
    where own.end_ns > inside.end_ns and parent_own.end_ns = parent.end_ns
),

-- What starts after its parent's end is not inside it, whatever the tree says.
walk as (
    select
        inside.event_id,
        outermost.end_ns
    from outermost
    inner join nesting as inside on outermost.event_id = inside.parent_id
    where inside.start_ns < outermost.end_ns
    union all
    select
        inside.event_id,
        walk.end_ns
    from walk
    inner join nesting as inside on walk.event_id = inside.parent_id
    where inside.start_ns < walk.end_ns
),

cut as (
    select
        outermost.event_id,
        outermost.end_ns
    from outermost
    inner join nesting on outermost.event_id = nesting.event_id
    where
        outermost.event_id not in (select event_id from walk)
        and nesting.parent_id not in (select event_id from walk)
    union all
    from walk
),

first_cut as (
    select
        event_id,
        min(end_ns) as end_ns
    from cut
    group by event_id
)

select
    cpu_span.event_id,
    cpu_span.track_id,
    cpu_span.category,
    cpu_span.start_ns,
    greatest(least(cpu_span.end_ns, first_cut.end_ns), cpu_span.start_ns) as end_ns,
    cpu_span.class_id,
    cpu_span.is_op,
    cpu_span.layer,
    cpu_span.is_cut or coalesce(first_cut.end_ns < cpu_span.end_ns, false) as is_cut
from cpu_span
left join first_cut on cpu_span.event_id = first_cut.event_id
