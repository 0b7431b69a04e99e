-- `cpu_span` with overhanging spans, and all spans inside, cut at the parent's end.
--
-- Old traces round to microseconds, and clocks jump. The new times are used only for the tree.
--
-- If spans cross, the depth counts too many open spans up to the cut, and later parents are also wrong. Therefore, only
-- spans that overhang a parent with a correct end are cut. The tree is then computed and checked again.
--
-- All spans that start after an overhanging span and before its parent's end are inside it: a run of consecutive spans.
-- A span may be in many runs. If all runs together are longer than four times the table, the deepest runs are postponed
-- to the next iteration.
--
-- :writes cpu_span
-- :reads cpu_span, nesting
-- :column event_id BIGINT   the event
-- :column track_id BIGINT   thread
-- :column category VARCHAR  kind of event; NULL if absent
-- :column start_ns BIGINT   start
-- :column end_ns BIGINT     end; for overhanging spans and all spans inside, at most the parent's end
-- :column class_id BIGINT   class of the name, of `name_class`; NULL for names without a class
-- :column is_op BOOLEAN     a CPU op
-- :column layer INTEGER     nesting order of spans with equal times, lower is outside, as in `cpu_span` before
-- :column is_cut BOOLEAN    the end was moved to make spans nest, now or before
with span_place as (
    -- Spans with their position in order of thread, start and depth.
    select
        event_id,
        track_id,
        start_ns,
        row_number() over (order by track_id, start_ns, depth, event_id) as place
    from nesting
),

-- The last position for each start.
last_start as (
    select
        track_id,
        start_ns,
        max(place) as place
    from span_place
    group by track_id, start_ns
),

-- Spans that overhang a parent with a correct end.
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

-- The same spans, with their position and the position of the last span before the parent's end.
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

-- The runs to cut in this iteration.
chosen_run as (
    select * from run
    qualify
        sum(last_place - first_place) over (order by depth, event_id rows unbounded preceding)
        <= 4 * (select count(*) from cpu_span)
),

-- Positions inside the runs, with the run's end.
place_in_run as (
    select
        unnest(range(first_place + 1, last_place + 1)) as place,
        end_ns
    from chosen_run
),

-- Spans inside runs, with the earliest end of their runs.
cut_inside as (
    select
        span_place.event_id,
        min(place_in_run.end_ns) as end_ns
    from place_in_run
    inner join span_place on place_in_run.place = span_place.place
    group by span_place.event_id
),

-- All spans to cut: spans inside runs, and overhanging spans outside of runs.
cut_span as (
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
    greatest(least(cpu_span.end_ns, cut_span.end_ns), cpu_span.start_ns) as end_ns,
    cpu_span.class_id,
    cpu_span.is_op,
    cpu_span.layer,
    cpu_span.is_cut or coalesce(cut_span.end_ns < cpu_span.end_ns, false) as is_cut
from cpu_span
left join cut_span on cpu_span.event_id = cut_span.event_id
