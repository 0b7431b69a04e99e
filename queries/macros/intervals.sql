-- Nested, adjacent and overlapping spans.
--
-- Spans are the rows of a table or CTE named in quotes, as in `nested('engine', track_id, depth)`. Each span has an
-- `event_id`, a `start_ns` and an `end_ns`, in nanoseconds, half-open. `lane` groups spans, for example by thread: a
-- column, or several as `(rank, track_id)`. If two spans start together, the inner span has the larger `depth`.

-- Whether a span starts at or after the end of all earlier spans in the lane. Among spans starting together, only the
-- span with the least `depth` can be outermost. This is a window function: use it in a list of columns or after
-- `qualify`.
create or replace macro is_outermost(start_ns, end_ns, lane, depth) as
coalesce(
    start_ns >= max(end_ns) over (
        partition by lane order by start_ns, depth rows between unbounded preceding and 1 preceding
    ),
    true
);

-- Nested spans with all their columns and two more. `level` is the number of enclosing spans. `around_id` is the
-- innermost enclosing span; NULL if absent. A span does not enclose a span starting at its end, and a span without
-- duration encloses no span.
--
-- All columns pass through a window: with many rows, select few columns first. `engine_call` takes 15 ms with this
-- macro and took 12 ms without (216,000 events). `nesting` is written by hand, to save memory. `module_segment`,
-- `region_segment` and `annotation_span` count more than levels in the same window.
create or replace macro nested(spans, lane, depth) as table
    with edge_of_span as (
        select
            *,
            lane as lane_of_span,
            start_ns as at_ns,
            1 as opens,
            depth as in_order,
            (end_ns > start_ns)::integer as change
        from query_table(spans)
        union all by name
        select
            lane as lane_of_span,
            end_ns as at_ns,
            0 as opens,
            -depth as in_order,
            -1 as change
        from query_table(spans)
        where end_ns > start_ns
    ),

    counted_span as (
        select
            *,
            (
                sum(change) over (partition by lane_of_span order by at_ns, opens, in_order rows unbounded preceding)
                - change
            )::integer as level
        from edge_of_span
    ),

    opened_span as (
        select * exclude (at_ns, opens, in_order, change)
        from counted_span
        where opens = 1
    ),

    container_of_span as (
        select
            lane_of_span,
            start_ns,
            event_id,
            level + 1 as inner_level
        from opened_span
        where end_ns > start_ns
    )

    select
        opened_span.* exclude (lane_of_span),
        container_of_span.event_id as around_id
    from opened_span
    asof left join container_of_span
        on
            opened_span.lane_of_span = container_of_span.lane_of_span
            and opened_span.level = container_of_span.inner_level
            and opened_span.start_ns >= container_of_span.start_ns;

-- The time of each lane, cut at the starts and ends of nested spans. Each piece has `lane`, `start_ns`, `end_ns` and
-- `event_id`, the innermost span. `event_id` is NULL outside of spans, and `end_ns` is NULL after the last span.
-- `around` is the enclosing span, from `nested`.
create or replace macro innermost(spans, lane, depth, around) as table
    with edge_of_span as (
        select
            lane as lane_of_span,
            start_ns as at_ns,
            1 as opens,
            depth as in_order,
            event_id
        from query_table(spans)
        where end_ns > start_ns
        union all
        select
            lane,
            end_ns,
            0,
            -depth,
            around
        from query_table(spans)
        where end_ns > start_ns
    ),

    piece_of_span as (
        select
            lane_of_span,
            at_ns as start_ns,
            lead(at_ns) over (partition by lane_of_span order by at_ns, opens, in_order) as end_ns,
            event_id
        from edge_of_span
    )

    select
        lane_of_span as lane,
        start_ns,
        end_ns,
        event_id
    from piece_of_span
    where end_ns is distinct from start_ns;

-- The time covered by at least one span of a lane, as `lane`, `start_ns` and `end_ns`. Overlapping and adjacent spans
-- are merged. The spans need no `event_id`.
create or replace macro merged(spans, lane) as table
    -- One span per start. Among equal spans, windows may choose any order, and two windows may choose different orders.
    with longest_span as (
        select
            lane as lane_of_span,
            start_ns,
            max(end_ns) as end_ns
        from query_table(spans)
        group by lane, start_ns
    ),

    reached_span as (
        select
            *,
            max(end_ns) over (partition by lane_of_span order by start_ns rows unbounded preceding) as reached_ns
        from longest_span
    ),

    compared_span as (
        select
            *,
            lag(reached_ns) over (partition by lane_of_span order by start_ns) as covered_to_ns
        from reached_span
    ),

    island_of_spans as (
        select
            *,
            sum((covered_to_ns is null or start_ns > covered_to_ns)::integer) over (
                partition by lane_of_span order by start_ns rows unbounded preceding
            ) as island
        from compared_span
    )

    select
        lane_of_span as lane,
        min(start_ns) as start_ns,
        max(end_ns) as end_ns
    from island_of_spans
    group by lane_of_span, island;

-- The innermost span starting at each moment, per thread of one rank: `track_id`, `start_ns` and `event_id`. The
-- activity at any moment is the last row at or before the moment.
create or replace macro last_begun(spans, of_rank) as table
    select
        track_id,
        start_ns,
        -- One number, because the database compares pairs more slowly.
        arg_max(event_id, at_place(depth, event_id)) as event_id
    from query_table(spans)
    where rank = of_rank
    group by track_id, start_ns;

-- A position and a number combined into one sortable number. A running max() then has the number of the last position,
-- and needs no memory, unlike `last_value`. `number_at` extracts the number. Positions and numbers are 0 or more.
create or replace macro at_place(place, number) as
(place::hugeint << 64) + number;

-- The number in a result of `at_place`: its lower 64 bits. A remainder takes several times as long.
create or replace macro number_at(placed) as
(placed & ((1::hugeint << 64) - 1))::bigint;

-- Whether an event has no time: its writer left start and duration at 0.
create or replace macro is_zero_time(start_ns, dur_ns) as
start_ns = 0 and dur_ns = 0;

-- Spans from separate begin and end events: `event_id` of the begin, `dur_ns` and `end_ns`. `edges` has `event_id`,
-- `start_ns` and `opens`, which is true for a begin. Within a lane, an end closes the last begin one level up. The
-- level is the running number of open begins, ordered by time and then by position in the file.
create or replace macro paired_edges(edges, lane) as table
    with levelled_edge as (
        select
            event_id,
            start_ns,
            opens,
            lane as lane_of_edge,
            sum(if(opens, 1, -1)) over (
                partition by lane order by start_ns, event_id rows unbounded preceding
            ) as level_after
        from query_table(edges)
    ),

    -- Edges, each with the next edge of the same level.
    neighbouring_edge as (
        select
            event_id,
            start_ns,
            opens,
            lead(opens) over in_level as next_opens,
            lead(start_ns) over in_level as next_ns
        from levelled_edge
        window in_level as (
            partition by lane_of_edge, if(opens, level_after, level_after + 1) order by start_ns, event_id
        )
    )

    select
        event_id,
        next_ns - start_ns as dur_ns,
        next_ns as end_ns
    from neighbouring_edge
    where opens and not next_opens;
