-- The longest times without work, each with what it waited for and what the CPU did meanwhile.
--
-- `cpu_*` is the CPU event with the most time of its own (without what is inside it) on the launching thread, between
-- the start of the gap and the launch of the work that ends it. `source` is the innermost line of the user's python
-- around that event, where the trace has python stacks.
--
-- :param by VARCHAR = 'device'      gaps of a device (all streams at once), or of each stream alone (stream)
-- :param rank BIGINT = NULL         only this rank
-- :param device BIGINT = NULL       only this device
-- :param step BIGINT = NULL         only gaps that end with work of this step
-- :param phase VARCHAR = NULL       only gaps that end with work of this phase
-- :param module VARCHAR = NULL      only gaps that end with work of this module or one in it, by path
-- :param cause VARCHAR = NULL       only host, synchronise, communication, kernel, other or unknown
-- :param limit BIGINT = 20          so many gaps
-- :reads idle_gap, event, name_info, launch, nesting, label, model_op
-- :column rank BIGINT               process rank
-- :column device BIGINT             device number; -1 when the events name none
-- :column stream BIGINT             the stream; NULL for the device, or when the events name none
-- :column start_ns BIGINT           start of the gap
-- :column dur_ns BIGINT             its length
-- :column cause VARCHAR             host, synchronise, communication, kernel, other or unknown
-- :column host_ns BIGINT            of it, until the next work was launched
-- :column sync_ns BIGINT            of it, because of a synchronise
-- :column launch_ns BIGINT          of it, from the launch call to the start of the work
-- :column queue_ns BIGINT           of it, launched work waited
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
with gap as (
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
        idle_gap.scope = $by
        and ($rank is null or idle_gap.rank = $rank)
        and ($device is null or idle_gap.device = $device)
        and ($step is null or idle_gap.step = $step)
        and ($phase is null or idle_gap.phase = $phase)
        and ($cause is null or idle_gap.cause = $cause)
        and ($module is null or model_op.path = $module or starts_with(model_op.path, $module || '.'))
),

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
    where gap.place <= $limit
),

meanwhile as (
    select
        chosen.place,
        nesting.rank,
        nesting.event_id,
        nesting.parent_id,
        nesting.depth,
        nesting.start_ns,
        nesting.end_ns,
        least(nesting.end_ns, chosen.launched_ns) - greatest(nesting.start_ns, chosen.start_ns) as inside_ns
    from chosen
    inner join nesting
        on
            chosen.rank = nesting.rank
            and chosen.track_id = nesting.track_id
            and nesting.start_ns < chosen.launched_ns
            and nesting.end_ns > chosen.start_ns
    where chosen.launched_ns > chosen.start_ns
),

child as (
    select
        place,
        parent_id,
        sum(inside_ns) as inside_ns
    from meanwhile
    where parent_id is not null
    group by place, parent_id
),

busiest as (
    select
        meanwhile.place,
        any_value(meanwhile.rank) as rank,
        arg_max(
            {
                'event_id': meanwhile.event_id,
                'own_ns': meanwhile.inside_ns - coalesce(child.inside_ns, 0),
                'start_ns': meanwhile.start_ns,
                'end_ns': meanwhile.end_ns,
                'depth': meanwhile.depth
            },
            (meanwhile.inside_ns - coalesce(child.inside_ns, 0), -meanwhile.event_id)
        ) as top
    from meanwhile
    left join child on meanwhile.place = child.place and meanwhile.event_id = child.parent_id
    group by meanwhile.place
),

source as (
    select
        busiest.place,
        arg_max(frame.name, meanwhile.depth) as name
    from busiest
    inner join meanwhile
        on
            busiest.place = meanwhile.place
            and meanwhile.depth <= busiest.top.depth
            and meanwhile.start_ns <= busiest.top.start_ns
            and meanwhile.end_ns >= busiest.top.end_ns
    inner join event as frame on meanwhile.rank = frame.rank and meanwhile.event_id = frame.event_id
    where
        frame.category = 'python_function'
        and regexp_matches(frame.name, '\.py\(\d+\): ')
        and not regexp_matches(frame.name, '(^|/)(torch|contextlib\.py|threading\.py|python\d?(\.\d+)?)([/(])')
    group by busiest.place
)

select
    chosen.rank,
    chosen.device,
    chosen.stream,
    chosen.start_ns,
    chosen.dur_ns,
    chosen.cause,
    chosen.host_ns,
    chosen.sync_ns,
    chosen.launch_ns,
    chosen.queue_ns,
    chosen.unknown_ns,
    chosen.step,
    chosen.phase,
    chosen.module_path,
    chosen.next_id,
    next_info.short_name as next_name,
    chosen.op_id,
    op.name as op_name,
    busiest.top.event_id as cpu_event_id,
    cpu_info.short_name as cpu_name,
    busiest.top.own_ns::bigint as cpu_ns,
    source.name as source
from chosen
left join event as next_event on chosen.rank = next_event.rank and chosen.next_id = next_event.event_id
left join name_info as next_info
    on (next_event.rank, next_event.category, next_event.name) = (next_info.rank, next_info.category, next_info.name)
left join event as op on chosen.rank = op.rank and chosen.op_id = op.event_id
left join busiest on chosen.place = busiest.place
left join event as cpu on busiest.rank = cpu.rank and busiest.top.event_id = cpu.event_id
left join name_info as cpu_info
    on (cpu.rank, cpu.category, cpu.name) = (cpu_info.rank, cpu_info.category, cpu_info.name)
left join source on chosen.place = source.place
order by chosen.place
