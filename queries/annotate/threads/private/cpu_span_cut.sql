-- `cpu_span` again: spans that stick out of their parent, and all spans in them, are cut where the parent ends. Old
-- traces round to microseconds, and clocks jump. Only the tree uses these times.
--
-- Where spans cross, the depth counts too many open spans until the cut, so that later parents are wrong as well. Hence
-- only spans that stick out of a sound parent are cut; then the tree is made again and looked at again.
--
-- All spans that start after such a span and before its parent's end are inside it: a run of the spans in order. A span
-- may be in many runs; where all runs together are longer than four times the table, the deepest runs wait for the next
-- time.
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
with span_place as (
    -- Spans with their place in order: by thread, start and depth.
    select
        event_id,
        track_id,
        start_ns,
        row_number() over (order by track_id, start_ns, depth, event_id) as place
    from nesting
),

-- The last place at each start.
last_start as (
    select
        track_id,
        start_ns,
        max(place) as place
    from span_place
    group by track_id, start_ns
),

-- Spans that stick out of a sound parent.
overhang as (
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

-- The same, with their own place and that of the last span before the parent's end.
run as (
    select
        overhang.*,
        span_place.place as first_place,
        last_start.place as last_place
    from overhang
    inner join span_place on overhang.event_id = span_place.event_id
    asof inner join last_start
        on overhang.track_id = last_start.track_id and overhang.end_ns > last_start.start_ns
),

-- The runs that are cut this time.
chosen_run as (
    select * from run
    qualify
        sum(last_place - first_place) over (order by depth, event_id rows unbounded preceding)
        <= 4 * (select count(*) from cpu_span)
),

-- Places inside those runs, with the end that holds there.
place_in_run as (
    select
        unnest(range(first_place + 1, last_place + 1)) as place,
        end_ns
    from chosen_run
),

-- Spans inside runs, with the earliest end that holds for each.
cut_inside as (
    select
        span_place.event_id,
        min(place_in_run.end_ns) as end_ns
    from place_in_run
    inner join span_place on place_in_run.place = span_place.place
    group by span_place.event_id
),

-- All spans to cut: those inside runs, and those that stick out and are in no run themselves.
cut as (
    select * from cut_inside
    union all
    select
        event_id,
        end_ns
    from chosen_run
    where event_id not in (select event_id from cut_inside) and parent_id not in (select event_id from cut_inside)
)

select
    cpu_span.event_id,
    cpu_span.track_id,
    cpu_span.category,
    cpu_span.start_ns,
    greatest(least(cpu_span.end_ns, cut.end_ns), cpu_span.start_ns) as end_ns,
    cpu_span.class_id,
    cpu_span.is_op,
    cpu_span.layer,
    cpu_span.is_cut or coalesce(cut.end_ns < cpu_span.end_ns, false) as is_cut
from cpu_span
left join cut on cpu_span.event_id = cut.event_id
