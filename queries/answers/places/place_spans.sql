-- The user's regions and functions on each thread in a time span, cut at each change of the innermost ones.
--
-- Each row has the innermost region and the innermost function. The later of the two to start is more specific.
-- `*_holds_phases` is true for a region or function around two or more phases, such as a function with the whole
-- training loop. Such a region or function is too general for the time of these phases.
--
-- :param rank BIGINT            the process rank
-- :param start_ns BIGINT        start of the time span
-- :param end_ns BIGINT          end of the time span
-- :reads phase_span, user_frame, user_region
-- :column track_id BIGINT       the thread
-- :column number BIGINT         number of the piece on its thread, from 1
-- :column start_ns BIGINT       start of the piece
-- :column end_ns BIGINT         end of the piece; NULL for the last piece of a thread
-- :column region VARCHAR        innermost region; NULL without a region
-- :column region_id BIGINT      event of the region
-- :column region_start_ns BIGINT
--                               start of the region
-- :column region_holds_phases BOOLEAN
--                               the region contains two or more phases
-- :column function VARCHAR      innermost function of the user; NULL without a function
-- :column source VARCHAR        file and first line of the function
-- :column function_id BIGINT    frame of the function
-- :column function_start_ns BIGINT
--                               start of the function
-- :column function_holds_phases BOOLEAN
--                               the function contains two or more phases

-- one row per region or function in the time span
with named_span as ( -- noqa: ST03
    select
        'region' as kind,
        event_id,
        track_id,
        depth,
        start_ns,
        end_ns,
        name,
        null as source
    from user_region
    where rank = $rank and start_ns < $end_ns and end_ns > $start_ns
    union all
    select
        'function',
        event_id,
        track_id,
        depth,
        start_ns,
        end_ns,
        function,
        source
    from user_frame
    where rank = $rank and start_ns < $end_ns and end_ns > $start_ns and end_ns > start_ns
),

nested_span as (
    select * from nested('named_span', {'kind': kind, 'track_id': track_id}, depth)
),

-- One row per piece of a thread with one innermost region, or one innermost function.
piece as (
    select
        unnest(lane),
        start_ns,
        event_id
    from innermost('nested_span', {'kind': kind, 'track_id': track_id}, depth, around_id)
),

-- Named phases, with a number that increases at each change of phase.
phase_run as (
    select
        track_id,
        start_ns,
        end_ns,
        sum(is_other_phase::integer) over (partition by track_id order by start_ns rows unbounded preceding) as number
    from (
        select
            *,
            coalesce(phase != lag(phase) over (partition by track_id order by start_ns), true) as is_other_phase
        from phase_span
        where rank = $rank and phase != 'other' and end_ns > start_ns
    )
),

-- one row per region or function, with a flag for several phases inside
counted_span as (
    select
        nested_span.event_id,
        nested_span.name,
        nested_span.source,
        nested_span.start_ns,
        coalesce(last_run.number > first_run.number, false) as holds_phases
    from nested_span
    asof left join phase_run as first_run
        on nested_span.track_id = first_run.track_id and nested_span.start_ns < first_run.end_ns
    asof left join phase_run as last_run
        on nested_span.track_id = last_run.track_id and nested_span.end_ns > last_run.start_ns
),

-- Times at which the region or the function changes; -1 means no region or function.
border as (
    select
        track_id,
        start_ns,
        max(coalesce(event_id, -1)) filter (where kind = 'region') as region_id,
        max(coalesce(event_id, -1)) filter (where kind = 'function') as function_id
    from piece
    group by track_id, start_ns
),

-- one row per piece between two changes, with the innermost region and function
span_piece as (
    select
        track_id,
        start_ns,
        lead(start_ns) over in_order as end_ns,
        last_value(region_id ignore nulls) over so_far as region_id,
        last_value(function_id ignore nulls) over so_far as function_id
    from border
    window
        in_order as (partition by track_id order by start_ns),
        so_far as (partition by track_id order by start_ns rows unbounded preceding)
)

select
    span_piece.track_id,
    row_number() over (partition by span_piece.track_id order by span_piece.start_ns) as number,
    span_piece.start_ns,
    span_piece.end_ns,
    region.name as region,
    region.event_id as region_id,
    region.start_ns as region_start_ns,
    region.holds_phases as region_holds_phases,
    frame.name as function,
    frame.source,
    frame.event_id as function_id,
    frame.start_ns as function_start_ns,
    frame.holds_phases as function_holds_phases
from span_piece
left join counted_span as region on span_piece.region_id = region.event_id
left join counted_span as frame on span_piece.function_id = frame.event_id
order by span_piece.track_id, span_piece.start_ns
