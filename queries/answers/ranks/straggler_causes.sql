-- What made late ranks late: by phase, module and region, what the last rank spent longer on than an early one.
--
-- The early one is the first, or in a large job one of four that mostly come first (`late_pair`). For each collective,
-- both ranks are compared from the last collective that had ended before it until they start. What the last one spends
-- more there, summed over a collective's rows, is its delay against the other. For kernels it is the device's time that
-- is compared, work and idle time before it; for gloo and MPI, that of the main thread. Collectives without one before
-- them, and those where the ranks started within a microsecond, are left out. Of collectives that are in flight
-- together, and so have the same one before them, the last is compared.
--
-- :param rank BIGINT = NULL          only where this rank was last
-- :param step BIGINT = NULL          only this step
-- :param phase PHASE = NULL
--                                    only time in this phase
-- :param module VARCHAR = NULL       only time of this module or one in it, by path
-- :reads collective_match, late_pair, label_segment, region_segment, phase_span, launch, event, label, idle_part,
--        model_op, name_info
-- :column rank BIGINT                the rank that came last
-- :column activity VARCHAR           host, idle, or the class of the work on the GPU
-- :column phase VARCHAR              phase; NULL outside every step
-- :column module_path VARCHAR        module; NULL where none is known
-- :column region VARCHAR             annotation or outermost op around the launch, or on the main thread; NULL without
--                                    one
-- :column collective_count BIGINT    collectives that it came last to and in which one of the two spent time on this
-- :column own_ns BIGINT              its time
-- :column first_ns BIGINT            that of the ranks that it is compared with
-- :column excess_ns BIGINT           the difference
with matched as materialized (
    select * from collective_match
),

sync as (
    select
        match_id,
        max(end_ns) as end_ns
    from matched
    group by match_id
),

since as (
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

compared as (
    select
        matched.match_id,
        matched.rank,
        matched.on_gpu,
        since.from_ns - matched.shift_ns as start_ns,
        matched.start_ns - matched.shift_ns as end_ns,
        case when matched.rank = since.rank then 1 else -1 end as side,
        since.rank as late_rank
    from matched
    inner join since on matched.match_id = since.match_id and matched.rank in (since.rank, since.early_rank)
),

main as (
    select distinct
        rank,
        track_id
    from phase_span
    where is_main and rank in (select rank from compared where not on_gpu)
),

-- Moments at which the label or the region of a main thread changes.
host_border as (
    select
        label_segment.rank,
        label_segment.track_id,
        label_segment.start_ns as at_ns
    from label_segment
    inner join main on label_segment.rank = main.rank and label_segment.track_id = main.track_id
    union
    select
        region_segment.rank,
        region_segment.track_id,
        unnest([region_segment.start_ns, region_segment.end_ns])
    from region_segment
    inner join main on region_segment.rank = main.rank and region_segment.track_id = main.track_id
),

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

launched as (
    select
        launch.rank,
        launch.event_id,
        label.phase,
        label.module_id,
        case when call.start_ns < region_segment.end_ns then region_segment.region end as region
    from launch
    inner join label on launch.rank = label.rank and launch.event_id = label.event_id
    left join event as call on launch.rank = call.rank and coalesce(launch.runtime_id, launch.op_id) = call.event_id
    asof left join region_segment
        on
            call.rank = region_segment.rank
            and call.track_id = region_segment.track_id
            and call.start_ns >= region_segment.start_ns
    where launch.rank in (select rank from compared where on_gpu)
),

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
        launched.rank,
        true,
        name_info.class,
        launched.phase,
        launched.module_id,
        launched.region,
        event.end_ns - launch.busy_ns,
        event.end_ns
    from launched
    inner join launch on launched.rank = launch.rank and launched.event_id = launch.event_id
    inner join event on launched.rank = event.rank and launched.event_id = event.event_id
    inner join name_info
        on (event.rank, event.category, event.name) = (name_info.rank, name_info.category, name_info.name)
    where launch.busy_ns > 0
    union all
    select
        idle_part.rank,
        true,
        'idle',
        idle_part.phase,
        launched.module_id,
        launched.region,
        idle_part.start_ns,
        idle_part.end_ns
    from idle_part
    left join launched on idle_part.rank = launched.rank and idle_part.next_id = launched.event_id
    where idle_part.rank in (select rank from compared)
),

spent as (
    select
        compared.late_rank,
        compared.match_id,
        compared.side,
        piece.activity,
        piece.phase,
        piece.module_id,
        piece.rank,
        piece.region,
        least(compared.end_ns, coalesce(piece.end_ns, compared.end_ns)) - greatest(compared.start_ns, piece.start_ns)
            as time_ns
    from compared
    inner join piece
        on
            compared.rank = piece.rank
            and compared.on_gpu = piece.on_gpu
            and piece.start_ns < compared.end_ns
            and coalesce(piece.end_ns, compared.end_ns) > compared.start_ns
)

select
    spent.late_rank as rank,
    spent.activity,
    spent.phase,
    model_op.path as module_path,
    spent.region,
    count(distinct spent.match_id) as collective_count,
    coalesce(sum(spent.time_ns) filter (where spent.side = 1), 0)::bigint as own_ns,
    coalesce(sum(spent.time_ns) filter (where spent.side = -1), 0)::bigint as first_ns,
    sum(spent.time_ns * spent.side)::bigint as excess_ns
from spent
left join model_op on spent.rank = model_op.rank and spent.module_id = model_op.module_id
where
    is_asked($phase, spent.phase)
    and in_module(model_op.path, $module)
group by spent.late_rank, spent.activity, spent.phase, model_op.path, spent.region
order by excess_ns desc, rank, activity, phase, module_path, region
