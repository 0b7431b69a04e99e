-- Causes of late ranks: additional time of the last rank compared to an early rank, by phase, module and region.
--
-- The early rank is the first rank, or in a large job one of four ranks that usually come first (`late_pair`). For each
-- collective, both ranks are compared from the end of the previous collective to their start. The additional time of
-- the last rank, summed over the rows of a collective, is its delay. For kernels, the time of the device is compared:
-- work, and idle time before work. For gloo and MPI, the time of the main thread is compared.
--
-- Collectives without a previous collective, and collectives with starts within a microsecond, are left out. Of several
-- collectives in flight together (with the same previous collective), only the last is compared.
--
-- :param rank BIGINT = NULL          only collectives with this rank as the last
-- :param step BIGINT = NULL          only this step
-- :param phase PHASE = NULL          only time in this phase
-- :param module VARCHAR = NULL       only time of this module or its submodules, by path
-- :reads collective_match, late_pair, label_segment, region_segment, phase_span, gpu_event, idle_part, model_op
-- :column rank RANK                  of the last process
-- :column activity VARCHAR           host, idle, or the class of the GPU work
-- :column phase PHASE                NULL outside every step
-- :column module_path VARCHAR        module; NULL if unknown
-- :column region VARCHAR             annotation or outermost op around the launch, or on the main thread; NULL without
--                                    both
-- :column collective_count BIGINT    number of collectives to which the rank came last and in which one of the two
--                                    ranks spent time on this
-- :column own_ns BIGINT              time of the last rank
-- :column first_ns BIGINT            time of the early ranks
-- :column excess_ns BIGINT           `own_ns` minus `first_ns`
with matched_call as materialized (
    select * from collective_match
),

sync as (
    select
        match_id,
        max(end_ns) as end_ns
    from matched_call
    group by match_id
),

-- one row per late rank and collective, with the end of the previous collective
late_arrival as (
    select
        late_pair.*,
        sync.end_ns as from_ns
    from late_pair
    asof inner join sync on late_pair.early_start_ns >= sync.end_ns
    where is_asked($rank, late_pair.rank) and is_asked($step, late_pair.step)
    qualify
        row_number() over (
            partition by late_pair.rank, sync.end_ns order by late_pair.early_start_ns desc, late_pair.match_id
        ) = 1
),

-- one row per compared rank and collective, with the compared time
compared_window as (
    select
        matched_call.match_id,
        matched_call.rank,
        matched_call.on_gpu,
        late_arrival.from_ns - matched_call.shift_ns as start_ns,
        matched_call.start_ns - matched_call.shift_ns as end_ns,
        case when matched_call.rank = late_arrival.rank then 1 else -1 end as side,
        late_arrival.rank as late_rank
    from matched_call
    inner join late_arrival
        on
            matched_call.match_id = late_arrival.match_id
            and matched_call.rank in (late_arrival.rank, late_arrival.early_rank)
),

main_thread as (
    select distinct
        rank,
        track_id
    from phase_span
    where is_main and rank in (select rank from compared_window where not on_gpu)
),

-- Times at which the label or the region of a main thread changes.
host_border as (
    select
        label_segment.rank,
        label_segment.track_id,
        label_segment.start_ns as at_ns
    from label_segment
    inner join main_thread on label_segment.rank = main_thread.rank and label_segment.track_id = main_thread.track_id
    union
    select
        region_segment.rank,
        region_segment.track_id,
        unnest([region_segment.start_ns, region_segment.end_ns])
    from region_segment
    inner join main_thread on region_segment.rank = main_thread.rank and region_segment.track_id = main_thread.track_id
),

-- one row per piece of a main thread, with its phase, module and region
host_piece as (
    select
        host_border.rank,
        label_segment.phase,
        label_segment.module_id,
        case when host_border.at_ns < region_segment.end_ns then region_segment.region end as region,
        host_border.at_ns as start_ns,
        lead(host_border.at_ns) over (
            partition by host_border.rank, host_border.track_id order by host_border.at_ns
        ) as end_ns
    from host_border
    asof inner join label_segment
        on
            host_border.rank = label_segment.rank
            and host_border.track_id = label_segment.track_id
            and host_border.at_ns >= label_segment.start_ns
    asof left join region_segment
        on
            host_border.rank = region_segment.rank
            and host_border.track_id = region_segment.track_id
            and host_border.at_ns >= region_segment.start_ns
),

-- one row per GPU event, with the phase, module and region of its launch
launched_work as (
    select
        gpu_event.rank,
        gpu_event.event_id,
        gpu_event.phase,
        gpu_event.module_id,
        gpu_event.class,
        gpu_event.end_ns,
        gpu_event.busy_ns,
        case when gpu_event.call_start_ns < region_segment.end_ns then region_segment.region end as region
    from gpu_event
    asof left join region_segment
        on
            gpu_event.rank = region_segment.rank
            and gpu_event.call_track_id = region_segment.track_id
            and gpu_event.call_start_ns >= region_segment.start_ns
    where gpu_event.rank in (select rank from compared_window where on_gpu)
),

-- one row per piece of time, on the host or the device
piece as (
    select
        rank,
        false as on_gpu,
        'host' as activity,
        phase,
        module_id,
        region,
        start_ns,
        end_ns
    from host_piece
    union all
    select
        rank,
        true,
        class,
        phase,
        module_id,
        region,
        end_ns - busy_ns,
        end_ns
    from launched_work
    where busy_ns > 0
    union all
    select
        idle_part.rank,
        true,
        'idle',
        idle_part.phase,
        launched_work.module_id,
        launched_work.region,
        idle_part.start_ns,
        idle_part.end_ns
    from idle_part
    left join launched_work on idle_part.rank = launched_work.rank and idle_part.next_id = launched_work.event_id
    where idle_part.rank in (select rank from compared_window)
),

-- one row per compared rank, collective and piece: the common time
common_time as (
    select
        compared_window.late_rank,
        compared_window.match_id,
        compared_window.side,
        piece.activity,
        piece.phase,
        piece.module_id,
        piece.rank,
        piece.region,
        least(compared_window.end_ns, coalesce(piece.end_ns, compared_window.end_ns))
        - greatest(compared_window.start_ns, piece.start_ns) as time_ns
    from compared_window
    inner join piece
        on
            compared_window.rank = piece.rank
            and compared_window.on_gpu = piece.on_gpu
            and piece.start_ns < compared_window.end_ns
            and coalesce(piece.end_ns, compared_window.end_ns) > compared_window.start_ns
)

select
    common_time.late_rank as rank,
    common_time.activity,
    common_time.phase,
    model_op.path as module_path,
    common_time.region,
    count(distinct common_time.match_id) as collective_count,
    coalesce(sum(common_time.time_ns) filter (where common_time.side = 1), 0)::bigint as own_ns,
    coalesce(sum(common_time.time_ns) filter (where common_time.side = -1), 0)::bigint as first_ns,
    sum(common_time.time_ns * common_time.side)::bigint as excess_ns
from common_time
left join model_op on common_time.rank = model_op.rank and common_time.module_id = model_op.module_id
where
    is_asked($phase, common_time.phase)
    and in_module(model_op.path, $module)
group by common_time.late_rank, common_time.activity, common_time.phase, model_op.path, common_time.region
order by excess_ns desc, rank, activity, phase, module_path, region
