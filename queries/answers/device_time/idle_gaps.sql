-- The longest gaps without GPU work, each with its cause and the CPU activity in the meantime.
--
-- `cpu_*` is the CPU event with the most self time on the launching thread, between the start of the gap and the launch
-- of the next work. `source` is the innermost user line of python around this event, if the trace has python stacks.
--
-- :param by VARCHAR in (device, stream) = 'device'
--                                 gaps of a device (all streams idle), or of each stream
-- :param rank BIGINT = NULL       only this rank
-- :param device BIGINT = NULL     only this device
-- :param stream BIGINT = NULL     only gaps of this stream, regardless of `by`
-- :param step BIGINT = NULL       only gaps ending with work of this step
-- :param phase PHASE = NULL       only gaps ending with work of this phase
-- :param module VARCHAR = NULL    only gaps ending with work of this module or its submodules, by path
-- :param cause GAP_CAUSE = NULL   only gaps of this cause
-- :param limit BIGINT >= 0 or NULL = 20 so many gaps; NULL for all
-- :reads idle_gap, gpu_event, cpu_event, python_call, python_function
-- :column rank RANK
-- :column device DEVICE             -1 without a device
-- :column stream BIGINT             stream; NULL for gaps of the device, or if the events have no stream
-- :column start_ns BIGINT           start of the gap
-- :column dur_ns BIGINT             duration of the gap
-- :column cause GAP_CAUSE           largest part of the gap
-- :column host_ns BIGINT            part of the gap until the launch of the next work took effect
-- :column launch_ns BIGINT          part of `host_ns` after the start of the launching call
-- :column sync_ns BIGINT            part of the gap caused by a synchronising call
-- :column queued_ns BIGINT          part of the gap with launched work waiting for other GPU work
-- :column unobserved_ns BIGINT      part of the gap with launched work waiting for no reason visible in the file
-- :column unknown_ns BIGINT         part of the gap before work without a known launch
-- :column step STEP                 of the next work; NULL outside every step or without a launch
-- :column phase PHASE               of the next work; NULL outside every phase or without a launch
-- :column module_path VARCHAR       module of the next work; NULL if unknown
-- :column next_id BIGINT            work at the end of the gap; NULL for the gap after the last work
-- :column next_name VARCHAR         short name of the next work
-- :column op_id BIGINT              op around the launch of the next work; NULL without an op
-- :column op_name VARCHAR           name of the op
-- :column cpu_event_id BIGINT       CPU event with the most time in the gap; NULL if unknown
-- :column cpu_name VARCHAR          short name of the CPU event
-- :column cpu_ns BIGINT             self time of the CPU event in the gap
-- :column source VARCHAR            user line of python around the CPU event; NULL without python stacks

-- one row per selected gap, numbered from the longest
with recursive gap as (
    select
        idle_gap.*,
        idle_gap.end_ns - idle_gap.start_ns as dur_ns,
        next_work.module_path,
        next_work.short_name as next_name,
        next_work.op_id,
        next_work.op as op_name,
        next_work.call_track_id as track_id,
        next_work.launch_start_ns,
        row_number() over (
            order by
                idle_gap.end_ns - idle_gap.start_ns desc, idle_gap.rank, idle_gap.start_ns, idle_gap.device,
                idle_gap.stream
        ) as place
    from idle_gap
    left join gpu_event as next_work on idle_gap.rank = next_work.rank and idle_gap.next_id = next_work.event_id
    where
        idle_gap.scope = case when $stream is null then $by else 'stream' end
        and ($rank is null or idle_gap.rank = $rank)
        and ($device is null or idle_gap.device = $device)
        and ($stream is null or idle_gap.stream = $stream)
        and ($step is null or idle_gap.step = $step)
        and ($phase is null or idle_gap.phase = $phase)
        and ($cause is null or idle_gap.cause = $cause)
        and in_module(next_work.module_path, $module)
),

-- The longest gaps, with the launching thread of the work at the end.
chosen_gap as (
    select
        gap.*,
        greatest(gap.start_ns, least(gap.end_ns, coalesce(gap.launch_start_ns, gap.end_ns))) as launched_ns
    from gap
    where gap.place <= coalesce($limit, 9223372036854775807)
),

-- Part of a gap before the launch, while the host is at work.
host_part as (
    select
        place,
        rank,
        track_id,
        start_ns,
        launched_ns
    from chosen_gap
    where launched_ns > start_ns and track_id is not null
),

-- Events on the launching threads during the gaps.
thread_event as (
    select cpu_event.*
    from cpu_event
    inner join (
        select
            rank,
            track_id,
            min(start_ns) as start_ns,
            max(launched_ns) as end_ns
        from host_part
        group by rank, track_id
    ) as thread
        on
            cpu_event.rank = thread.rank
            and cpu_event.track_id = thread.track_id
            and cpu_event.start_ns < thread.end_ns
            and cpu_event.end_ns > thread.start_ns
    where cpu_event.end_ns > cpu_event.start_ns
),

-- Borders of events and gaps on the threads, with the innermost event from the border on.
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
    from thread_event
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
    from thread_event
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
    from host_part
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
    from host_part
),

-- Time slices between two borders.
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

-- Events with self time in a gap.
event_in_gap as (
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

busiest_event as (
    select
        place,
        any_value(rank) as rank,
        max(own_ns) as own_ns,
        arg_max(event_id, (own_ns, -event_id)) as event_id
    from event_in_gap
    group by place
),

-- Events on these threads; a frame of the user also has its line of python.
frame as (
    select
        thread_event.rank,
        thread_event.event_id,
        thread_event.parent_id,
        python_function.name as source
    from thread_event
    left join python_function
        on
            thread_event.rank = python_function.rank
            and thread_event.name = python_function.name
            and thread_event.category = 'python_function'
            and python_function.is_user
    where exists (select 1 from python_call where thread_event.rank = python_call.rank)
),

-- From the busiest event outwards, up to the first user line of python.
outer_event as (
    select distinct
        rank,
        event_id as inner_id,
        event_id as outer_id
    from busiest_event
    union all
    select
        outer_event.rank,
        outer_event.inner_id,
        frame.parent_id
    from outer_event
    inner join frame on outer_event.rank = frame.rank and outer_event.outer_id = frame.event_id
    where frame.source is null and frame.parent_id is not null
)

select
    chosen_gap.rank,
    chosen_gap.device,
    chosen_gap.stream,
    chosen_gap.start_ns,
    chosen_gap.dur_ns,
    chosen_gap.cause,
    chosen_gap.host_ns,
    chosen_gap.launch_ns,
    chosen_gap.sync_ns,
    chosen_gap.queued_ns,
    chosen_gap.unobserved_ns,
    chosen_gap.unknown_ns,
    chosen_gap.step,
    chosen_gap.phase,
    chosen_gap.module_path,
    chosen_gap.next_id,
    chosen_gap.next_name,
    chosen_gap.op_id,
    chosen_gap.op_name,
    busiest_event.event_id as cpu_event_id,
    busiest.short_name as cpu_name,
    busiest_event.own_ns::bigint as cpu_ns,
    source.source
from chosen_gap
left join busiest_event on chosen_gap.place = busiest_event.place
left join cpu_event as busiest on busiest_event.rank = busiest.rank and busiest_event.event_id = busiest.event_id
left join (
    select
        outer_event.rank,
        outer_event.inner_id,
        frame.source
    from outer_event
    inner join frame on outer_event.rank = frame.rank and outer_event.outer_id = frame.event_id
    where frame.source is not null
) as source on busiest_event.rank = source.rank and busiest_event.event_id = source.inner_id
order by chosen_gap.place
