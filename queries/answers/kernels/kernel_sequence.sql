-- GPU work of each stream in order, with launch costs: the input of `frequent_kernel_patterns`.
--
-- `place` numbers all work of the stream, including work outside the selection. Adjacent work therefore has consecutive
-- places. The launch of several GPU events (a graph) is attributed to the first event. A call counts with at most ten
-- times the median call: a longer call waits for something, such as a blocking copy. A gap lasting more than 50 µs
-- longer is not caused by the launch.
--
-- :param rank BIGINT = NULL           only this rank
-- :param device BIGINT = NULL         only this device
-- :param step BIGINT = NULL           only work launched in this step
-- :param phase PHASE = NULL           only work launched in this phase
-- :param module VARCHAR = NULL        only work of this module and its submodules, by path
-- :param op VARCHAR = NULL            only work launched inside CPU ops with this name
-- :reads gpu_event, cpu_event
-- :column rank RANK
-- :column device DEVICE               -1 without a device
-- :column stream BIGINT               stream; -1 if the event has no stream
-- :column place BIGINT                position on the stream, from 0
-- :column event_id BIGINT             GPU event
-- :column short_name VARCHAR          short name of the GPU event
-- :column start_ns BIGINT             start
-- :column end_ns BIGINT               end
-- :column gap_ns BIGINT               time from the end of earlier work of the stream to the start; 0 for the first
--                                     event
-- :column launch_gap_ns BIGINT        part of the gap after the start of the launching call; 0 if the gap has another
--                                     cause
-- :column call_ns BIGINT              start of the launching call; NULL without a launch
-- :column call_end_ns BIGINT          end of the launching call; NULL without a launch
-- :column launch_ns BIGINT            duration of the launching call; 0 except for the first GPU event of the call

-- one row per GPU event, with its stream and launch
with work as (
    select
        rank,
        event_id,
        short_name,
        start_ns,
        end_ns,
        device,
        stream_of(stream) as stream,
        runtime_id,
        call_track_id,
        call_start_ns,
        launch_start_ns,
        launch_dur_ns,
        step,
        phase,
        module_path
    from gpu_event
    where is_asked($rank, rank)
),

-- one row per GPU event, with its place on the stream and its number within the launching call
placed_work as (
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

usual_launch as (
    select
        rank,
        quantile_disc(launch_dur_ns, 0.5) as launch_dur_ns
    from placed_work
    where turn = 1 and launch_dur_ns is not null
    group by rank
),

spaced_work as (
    select
        *,
        lag(reached_ns) over (partition by rank, device, stream order by place) as before_ns
    from placed_work
),

-- one row per call of the selected op, with the latest end so far on the thread
named_op as (
    select
        rank,
        track_id,
        start_ns,
        end_ns,
        max(end_ns) over (
            partition by rank, track_id
            order by start_ns, depth rows between unbounded preceding and current row
        ) as reached_ns,
        depth
    from cpu_event
    where category = 'cpu_op' and name = $op
),

outer_op as (
    select *
    from named_op
    qualify coalesce(lag(reached_ns) over (partition by rank, track_id order by start_ns, depth) <= start_ns, true)
),

-- one row per GPU event launched inside the selected op
work_in_op as (
    select
        spaced_work.rank,
        spaced_work.event_id
    from spaced_work
    asof inner join outer_op
        on
            spaced_work.rank = outer_op.rank
            and spaced_work.call_track_id = outer_op.track_id
            and spaced_work.call_start_ns >= outer_op.start_ns
    where spaced_work.call_start_ns < outer_op.end_ns
)

select
    spaced_work.rank,
    spaced_work.device,
    spaced_work.stream,
    spaced_work.place,
    spaced_work.event_id,
    spaced_work.short_name,
    spaced_work.start_ns,
    spaced_work.end_ns,
    greatest(spaced_work.start_ns - coalesce(spaced_work.before_ns, spaced_work.start_ns), 0) as gap_ns,
    case
        when spaced_work.before_ns is null or spaced_work.launch_start_ns is null then 0
        when
            spaced_work.start_ns - greatest(
                spaced_work.before_ns,
                spaced_work.launch_start_ns + least(spaced_work.launch_dur_ns, 10 * usual_launch.launch_dur_ns)
            ) <= launch_effect_ns()
            then greatest(spaced_work.start_ns - greatest(spaced_work.before_ns, spaced_work.launch_start_ns), 0)
        else 0
    end as launch_gap_ns,
    spaced_work.launch_start_ns as call_ns,
    spaced_work.launch_start_ns + spaced_work.launch_dur_ns as call_end_ns,
    case
        when spaced_work.turn > 1 or spaced_work.launch_dur_ns is null then 0
        else least(spaced_work.launch_dur_ns, 10 * usual_launch.launch_dur_ns)
    end as launch_ns
from spaced_work
left join usual_launch on spaced_work.rank = usual_launch.rank
where
    is_asked($device, spaced_work.device)
    and is_asked($step, spaced_work.step)
    and is_asked($phase, spaced_work.phase)
    and in_module(spaced_work.module_path, $module)
    and ($op is null or (spaced_work.rank, spaced_work.event_id) in (select (rank, event_id) from work_in_op))
order by spaced_work.rank, spaced_work.device, spaced_work.stream, spaced_work.place
