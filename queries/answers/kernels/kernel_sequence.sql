-- The GPU work of each stream in order, with what each cost to launch: what `frequent_kernel_patterns` looks for
-- patterns in.
--
-- `place` counts all work of the stream, so work that follows each other directly has places that follow each other,
-- also where only some of it is asked for. The launch of several at once (a graph) counts to the first of them. A call
-- counts with at most ten times the median: what takes longer waits for something, such as a blocking copy. A gap that
-- goes on for more than 50 us after that is no launch's fault.
--
-- :param rank BIGINT = NULL           only this rank
-- :param device BIGINT = NULL         only this device
-- :param step BIGINT = NULL           only work that this step launched
-- :param phase PHASE = NULL
--                                     only work that this phase launched
-- :param module VARCHAR = NULL        only work of the module with this path and those in it
-- :param op VARCHAR = NULL            only work launched inside CPU ops of this name
-- :reads event, gpu_op, launch, label, model_op, name_info, nesting
-- :column rank BIGINT                 process rank
-- :column device BIGINT               device; -1 when the event names none
-- :column stream BIGINT               stream; -1 when the event names none
-- :column place BIGINT                position on the stream, from 0
-- :column event_id BIGINT             the event
-- :column short_name VARCHAR          its short name
-- :column start_ns BIGINT             start
-- :column end_ns BIGINT               end
-- :column gap_ns BIGINT               from the end of earlier work of the stream to its start; 0 for the first
-- :column launch_gap_ns BIGINT        of that, from the start of the launch call on; 0 if something else held it up
-- :column call_ns BIGINT              start of the call that launched it; NULL when unlinked
-- :column call_end_ns BIGINT          end of that call; NULL when unlinked
-- :column launch_ns BIGINT            time that launching took in that call; 0 but for the first work it launched
with work as (
    select
        event.rank,
        event.event_id,
        event.category,
        event.name,
        event.start_ns,
        event.end_ns,
        device_of(gpu_op.device) as device,
        stream_of(gpu_op.stream) as stream,
        launch.runtime_id,
        coalesce(launch.runtime_id, launch.op_id) as caller_id,
        launch.launch_start_ns,
        launch.launch_dur_ns
    from event
    inner join gpu_op on event.rank = gpu_op.rank and event.event_id = gpu_op.event_id
    inner join launch on event.rank = launch.rank and event.event_id = launch.event_id
    where is_asked($rank, event.rank)
),

placed as (
    select
        work.*,
        row_number() over in_order - 1 as place,
        max(end_ns) over in_order as reached_ns,
        row_number() over (partition by rank, coalesce(runtime_id, -1 - event_id) order by start_ns, event_id) as turn
    from work
    window in_order as ( -- noqa: PRS
        partition by rank, device, stream order by start_ns, event_id rows unbounded preceding
    )
),

usual as (
    select
        rank,
        quantile_disc(launch_dur_ns, 0.5) as launch_dur_ns
    from placed
    where turn = 1 and launch_dur_ns is not null
    group by rank
),

spaced as (
    select
        *,
        lag(reached_ns) over (partition by rank, device, stream order by place) as before_ns
    from placed
),

named as (
    select
        nesting.rank,
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns,
        max(nesting.end_ns) over (
            partition by nesting.rank, nesting.track_id
            order by nesting.start_ns, nesting.depth rows between unbounded preceding and current row
        ) as reached_ns,
        nesting.depth
    from nesting
    inner join event on nesting.rank = event.rank and nesting.event_id = event.event_id
    where event.category = 'cpu_op' and event.name = $op
),

outer_op as (
    select *
    from named
    qualify coalesce(lag(reached_ns) over (partition by rank, track_id order by start_ns, depth) <= start_ns, true)
),

inside_op as (
    select
        spaced.rank,
        spaced.event_id
    from spaced
    inner join nesting on spaced.rank = nesting.rank and spaced.caller_id = nesting.event_id
    asof inner join outer_op
        on
            nesting.rank = outer_op.rank
            and nesting.track_id = outer_op.track_id
            and nesting.start_ns >= outer_op.start_ns
    where nesting.start_ns < outer_op.end_ns
)

select
    spaced.rank,
    spaced.device,
    spaced.stream,
    spaced.place,
    spaced.event_id,
    name_info.short_name,
    spaced.start_ns,
    spaced.end_ns,
    greatest(spaced.start_ns - coalesce(spaced.before_ns, spaced.start_ns), 0) as gap_ns,
    case
        when spaced.before_ns is null or spaced.launch_start_ns is null then 0
        when
            spaced.start_ns - greatest(
                spaced.before_ns, spaced.launch_start_ns + least(spaced.launch_dur_ns, 10 * usual.launch_dur_ns)
            ) <= launch_effect_ns()
            then greatest(spaced.start_ns - greatest(spaced.before_ns, spaced.launch_start_ns), 0)
        else 0
    end as launch_gap_ns,
    spaced.launch_start_ns as call_ns,
    spaced.launch_start_ns + spaced.launch_dur_ns as call_end_ns,
    case
        when spaced.turn > 1 or spaced.launch_dur_ns is null then 0
        else least(spaced.launch_dur_ns, 10 * usual.launch_dur_ns)
    end as launch_ns
from spaced
inner join name_info
    on (spaced.rank, spaced.category, spaced.name) = (name_info.rank, name_info.category, name_info.name)
left join usual on spaced.rank = usual.rank
left join label on spaced.rank = label.rank and spaced.event_id = label.event_id
left join model_op on label.rank = model_op.rank and label.module_id = model_op.module_id
where
    is_asked($device, spaced.device)
    and is_asked($step, label.step)
    and is_asked($phase, label.phase)
    and in_module(model_op.path, $module)
    and ($op is null or (spaced.rank, spaced.event_id) in (select (rank, event_id) from inside_op))
order by spaced.rank, spaced.device, spaced.stream, spaced.place
