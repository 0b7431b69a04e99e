-- Spans in each other, side by side, and over each other.
--
-- Spans are the rows of a table or CTE that is named in quotes, as in `nested('engine', track_id, depth)`. Each has an
-- `event_id`, a `start_ns` and an `end_ns`, in nanoseconds, half-open. `lane` is what they share, such as their thread:
-- a column, or several as `(rank, track_id)`. `depth` is larger for the inner one of two that start together.

-- Whether a span begins in none of its lane that began before it: after the end of all of those. Of spans that start
-- together, the one with the least `depth`. A window function, so it stands in a list of columns or after `qualify`.
create or replace macro is_outermost(start_ns, end_ns, lane, depth) as
coalesce(
    start_ns >= max(end_ns) over (
        partition by lane order by start_ns, depth rows between unbounded preceding and 1 preceding
    ),
    true
);

-- Spans that nest, with all of their columns, and two more: `level`, the number of spans around each, and `around_id`,
-- the innermost of those; NULL without one. What ends when another one starts is not around it. A span without duration
-- is around nothing. It carries all columns through a window, so a caller with many rows should have few: `engine_call`
-- takes 15 ms with it, and took 12 (216,000 events). `nesting` is made by hand, for memory; `module_segment`,
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

-- The time of each lane cut where its spans start and end, which nest: `lane`, `start_ns`, `end_ns` and `event_id`, the
-- innermost span of each piece. `event_id` is NULL where none is, and `end_ns` after the last one. `around` is the span
-- around each, as `nested` finds it.
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

-- The time that any span of a lane takes, `lane`, `start_ns` and `end_ns`: what overlaps or touches is one. The spans
-- need no `event_id`.
create or replace macro merged(spans, lane) as table
    -- One span for each start: of two that are equal, windows may take either first, one this way and one that way.
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

-- The innermost of the spans of one rank that start at each moment of a thread: `track_id`, `start_ns` and `event_id`.
-- What happens at a moment is known by the last of these before it.
create or replace macro last_begun(spans, of_rank) as table
    select
        track_id,
        start_ns,
        arg_max(event_id, (depth, event_id)) as event_id
    from query_table(spans)
    where rank = of_rank
    group by track_id, start_ns;

-- A number at a place of an order, as one number: a running max() of them has the number of the last place, and needs
-- no memory, as `last_value` does. `number_at` gives the number back. Places and numbers are 0 or more.
create or replace macro at_place(place, number) as
(place::hugeint << 64) + number;

-- The number of a row of `at_place`.
create or replace macro number_at(placed) as
(placed % (1::hugeint << 64))::bigint;
