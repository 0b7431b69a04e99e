-- The longest times without work, each with what it waited for and what the CPU did meanwhile.
--
-- `cpu_*` is the CPU event with the most time of its own (without what is inside it) on the launching thread, between
-- the start of the gap and the launch of the work that ends it. `source` is the innermost line of the user's python
-- around that event, where the trace has python stacks.
--
-- :param by VARCHAR in (device, stream) = 'device'
--                                 gaps of a device (all streams at once), or of each stream alone
-- :param rank BIGINT = NULL       only this rank
-- :param device BIGINT = NULL     only this device
-- :param stream BIGINT = NULL     only gaps of this stream, whatever `by` says
-- :param step BIGINT = NULL       only gaps that end with work of this step
-- :param phase PHASE = NULL
--                                 only gaps that end with work of this phase
-- :param module VARCHAR = NULL    only gaps that end with work of this module or one in it, by path
-- :param cause GAP_CAUSE = NULL   only gaps of this cause
-- :param limit BIGINT >= 0 or NULL = 20 so many gaps; NULL for all
-- :reads idle_gap, event, name_info, launch, nesting, label, model_op, python_call, python_function
-- :column rank BIGINT               process rank
-- :column device BIGINT             device number; -1 when the events name none
-- :column stream BIGINT             the stream; NULL for the device, or when the events name none
-- :column start_ns BIGINT           start of the gap
-- :column dur_ns BIGINT             its length
-- :column cause GAP_CAUSE           the largest part of the wait
-- :column host_ns BIGINT            of it, until the launch of the next work took effect
-- :column launch_ns BIGINT          of `host_ns`, from the launch call on
-- :column sync_ns BIGINT            of the gap, because of a synchronise
-- :column queued_ns BIGINT          of it, launched work waited
-- :column unobserved_ns BIGINT      of it, launched work waited, and nothing in the file explains why
-- :column unknown_ns BIGINT         of it, before work without a known launch
-- :column step BIGINT               step of the work that ends it; NULL outside every step or when unlinked
-- :column phase VARCHAR             its phase, likewise
-- :column module_path VARCHAR       its module; NULL where none is known
-- :column next_id BIGINT            the work that ends it; NULL for the gap after the last one
-- :column next_name VARCHAR         its short name
-- :column op_id BIGINT              the op that launched it; NULL without one
-- :column op_name VARCHAR           name of the op
-- :column cpu_event_id BIGINT       what the CPU did most of the time; NULL when nothing is known
-- :column cpu_name VARCHAR          its short name
-- :column cpu_ns BIGINT             its own time in the gap
-- :column source VARCHAR            the user's line of python around it; NULL without python stacks
with recursive gap as (
    select
        idle_gap.*,
        idle_gap.end_ns - idle_gap.start_ns as dur_ns,
        model_op.path as module_path,
        row_number() over (
            order by
                idle_gap.end_ns - idle_gap.start_ns desc, idle_gap.rank, idle_gap.start_ns, idle_gap.device,
                idle_gap.stream
        ) as place
    from idle_gap
    left join label on idle_gap.rank = label.rank and idle_gap.next_id = label.event_id
    left join model_op on label.rank = model_op.rank and label.module_id = model_op.module_id
    where
        idle_gap.scope = case when $stream is null then $by else 'stream' end
        and ($rank is null or idle_gap.rank = $rank)
        and ($device is null or idle_gap.device = $device)
        and ($stream is null or idle_gap.stream = $stream)
        and ($step is null or idle_gap.step = $step)
        and ($phase is null or idle_gap.phase = $phase)
        and ($cause is null or idle_gap.cause = $cause)
        and ($module is null or model_op.path = $module or starts_with(model_op.path, $module || '.'))
),

-- The longest of them, with the thread that launched the work at their end.
chosen as (
    select
        gap.*,
        launch.op_id,
        nesting.track_id,
        greatest(gap.start_ns, least(gap.end_ns, coalesce(launch.launch_start_ns, gap.end_ns))) as launched_ns
    from gap
    left join launch on gap.rank = launch.rank and gap.next_id = launch.event_id
    left join nesting
        on launch.rank = nesting.rank and coalesce(launch.runtime_id, launch.op_id) = nesting.event_id
    where gap.place <= coalesce($limit, 9223372036854775807)
),

-- Before the launch: the part of a gap in which the host is at work.
host as (
    select
        place,
        rank,
        track_id,
        start_ns,
        launched_ns
    from chosen
    where launched_ns > start_ns and track_id is not null
),

-- Events of these threads at these times.
around as (
    select nesting.*
    from nesting
    inner join (
        select
            rank,
            track_id,
            min(start_ns) as start_ns,
            max(launched_ns) as end_ns
        from host
        group by rank, track_id
    ) as thread
        on
            nesting.rank = thread.rank
            and nesting.track_id = thread.track_id
            and nesting.start_ns < thread.end_ns
            and nesting.end_ns > thread.start_ns
    where nesting.end_ns > nesting.start_ns
),

-- The threads' time, cut where an event or a gap begins or ends, with the innermost event from there on.
edge as (
    select
        rank,
        track_id,
        start_ns as at_ns,
        1 as opens,
        depth as in_order,
        {'event_id': event_id} as innermost,
        null::bigint as begins,
        null::bigint as ends
    from around
    union all
    select
        rank,
        track_id,
        end_ns,
        0,
        -depth,
        {'event_id': parent_id},
        null,
        null
    from around
    union all
    select
        rank,
        track_id,
        start_ns,
        2,
        0,
        null,
        place,
        null
    from host
    union all
    select
        rank,
        track_id,
        launched_ns,
        2,
        0,
        null,
        null,
        place
    from host
),

-- Times between two edges.
slice as (
    select
        rank,
        track_id,
        begins,
        ends,
        row_number() over in_order as number,
        lead(at_ns) over in_order - at_ns as dur_ns,
        last_value(innermost ignore nulls) over (in_order rows between unbounded preceding and current row) as innermost
    from edge
    window in_order as (partition by rank, track_id order by at_ns, opens, in_order)
),

-- Events with time of their own in a gap.
meanwhile as (
    select
        in_gap.place,
        in_gap.rank,
        slice.innermost.event_id,
        sum(slice.dur_ns) as own_ns
    from (
        select
            first.begins as place,
            first.rank,
            first.track_id,
            unnest(range(first.number, last.number)) as number
        from slice as first
        inner join slice as last on first.begins = last.ends
    ) as in_gap
    inner join slice on in_gap.rank = slice.rank and in_gap.track_id = slice.track_id and in_gap.number = slice.number
    where slice.dur_ns > 0 and slice.innermost.event_id is not null
    group by in_gap.place, in_gap.rank, slice.innermost.event_id
),

busiest as (
    select
        place,
        any_value(rank) as rank,
        max(own_ns) as own_ns,
        arg_max(event_id, (own_ns, -event_id)) as event_id
    from meanwhile
    group by place
),

-- Events around, with the line of the user's python that they are, if they are one.
frame as (
    select
        around.rank,
        around.event_id,
        around.parent_id,
        python_function.name as source
    from around
    inner join event on around.rank = event.rank and around.event_id = event.event_id
    left join python_function
        on
            event.rank = python_function.rank
            and event.name = python_function.name
            and event.category = 'python_function'
            and python_function.is_user
    where exists (select 1 from python_call where around.rank = python_call.rank)
),

-- From the busiest event outwards, until a line of the user's python.
outward as (
    select distinct
        rank,
        event_id as inner_id,
        event_id as outer_id
    from busiest
    union all
    select
        outward.rank,
        outward.inner_id,
        frame.parent_id
    from outward
    inner join frame on outward.rank = frame.rank and outward.outer_id = frame.event_id
    where frame.source is null and frame.parent_id is not null
)

select
    chosen.rank,
    chosen.device,
    chosen.stream,
    chosen.start_ns,
    chosen.dur_ns,
    chosen.cause,
    chosen.host_ns,
    chosen.launch_ns,
    chosen.sync_ns,
    chosen.queued_ns,
    chosen.unobserved_ns,
    chosen.unknown_ns,
    chosen.step,
    chosen.phase,
    chosen.module_path,
    chosen.next_id,
    next_info.short_name as next_name,
    chosen.op_id,
    op.name as op_name,
    busiest.event_id as cpu_event_id,
    cpu_info.short_name as cpu_name,
    busiest.own_ns::bigint as cpu_ns,
    source.source
from chosen
left join event as next_event on chosen.rank = next_event.rank and chosen.next_id = next_event.event_id
left join name_info as next_info
    on (next_event.rank, next_event.category, next_event.name) = (next_info.rank, next_info.category, next_info.name)
left join event as op on chosen.rank = op.rank and chosen.op_id = op.event_id
left join busiest on chosen.place = busiest.place
left join event as cpu on busiest.rank = cpu.rank and busiest.event_id = cpu.event_id
left join name_info as cpu_info
    on (cpu.rank, cpu.category, cpu.name) = (cpu_info.rank, cpu_info.category, cpu_info.name)
left join (
    select
        outward.rank,
        outward.inner_id,
        frame.source
    from outward
    inner join frame on outward.rank = frame.rank and outward.outer_id = frame.event_id
    where frame.source is not null
) as source on busiest.rank = source.rank and busiest.event_id = source.inner_id
order by chosen.place
