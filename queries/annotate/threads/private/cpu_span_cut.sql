-- `cpu_span` again, with what sticks out of its parent cut there, and all in it: old traces round to microseconds, and
-- clocks jump. Only the tree uses these times.
--
-- Where spans cross, depth counts too many open ones until the cut, so that later parents are wrong as well. Hence only
-- what sticks out of a sound parent is cut, and the tree is made and asked again.
--
-- All that starts after such a span and before its parent's end is inside it, so it is a run of the spans in order. A
-- span may be in many runs; the deepest ones wait for the next time where all runs together are longer than a few times
-- the table.
--
-- :writes cpu_span
-- :reads cpu_span, nesting
-- :column event_id BIGINT   the event
-- :column track_id BIGINT   its thread
-- :column category VARCHAR  kind of event; NULL when the event has none
-- :column start_ns BIGINT   start
-- :column end_ns BIGINT     end; of what sticks out of its parent, and of all in it, at most the parent's end
-- :column class_id BIGINT   class of its name, of `name_class`; NULL for a name that tells nothing
-- :column is_op BOOLEAN     a CPU op
-- :column layer INTEGER     of spans with equal times, the lower one is outside, as in `cpu_span` before
-- :column is_cut BOOLEAN    its end was taken back so that all nest, now or before
with placed as (
    select
        event_id,
        track_id,
        start_ns,
        row_number() over (order by track_id, start_ns, depth, event_id) as place
    from nesting
),

last_start as (
    select
        track_id,
        start_ns,
        max(place) as place
    from placed
    group by track_id, start_ns
),

sticking_out as (
    select
        inside.event_id,
        inside.parent_id,
        inside.track_id,
        inside.depth,
        inside.end_ns
    from nesting as inside
    inner join cpu_span as own on inside.event_id = own.event_id
    inner join nesting as parent on inside.parent_id = parent.event_id
    inner join cpu_span as parent_own on parent.event_id = parent_own.event_id
    where own.end_ns > inside.end_ns and parent_own.end_ns = parent.end_ns
),

run as (
    select
        sticking_out.*,
        placed.place as first_place,
        last_start.place as last_place
    from sticking_out
    inner join placed on sticking_out.event_id = placed.event_id
    asof inner join last_start
        on sticking_out.track_id = last_start.track_id and sticking_out.end_ns > last_start.start_ns
),

outermost as (
    select * from run
    qualify
        sum(last_place - first_place) over (order by depth, event_id rows unbounded preceding)
        <= 4 * (select count(*) from cpu_span)
),

within as (
    select
        unnest(range(first_place + 1, last_place + 1)) as place,
        end_ns
    from outermost
),

walk as (
    select
        placed.event_id,
        min(within.end_ns) as end_ns
    from within
    inner join placed on within.place = placed.place
    group by placed.event_id
),

first_cut as (
    select * from walk
    union all
    select
        event_id,
        end_ns
    from outermost
    where event_id not in (select event_id from walk) and parent_id not in (select event_id from walk)
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
