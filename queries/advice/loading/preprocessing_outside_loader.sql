-- Data prepared by the training loop itself, outside of any DataLoader, while the GPU is idle.
--
-- Condition: time in which a launching thread loads data (`load_data` in `host_activity`), outside of PyTorch's
-- annotations for DataLoaders and of the profiler's own functions (`step`). Time without an event inside or around it
-- counts from a millisecond on (`long_python_ns`), because any loop has some python. If the trace has GPU work, the
-- step must copy data to the GPU, because prepared data has to get there. Bound: the data is ready when requested.
-- Source: PyTorch performance tuning guide, "Enable asynchronous data loading and augmentation".
--
-- :reads host_activity, cpu_event, gpu_event
-- :finding stretches in which the loop itself prepares data, most of it in {name}
-- :remedy Prepare it in a Dataset whose DataLoader has workers, so that it is done while the model computes, or once
--     before the run.
with loader as ( -- noqa: ST03
    -- One row per DataLoader annotation, and per call of the profiler's own python.
    select
        track_id,
        start_ns,
        end_ns
    from cpu_event
    where
        rank = $rank
        and (
            (category in ('user_annotation', 'cpu_op') and is_loader_mark(name))
            or (category = 'python_function' and is_frame_of_profiler(name))
        )
),

-- One row per stretch of data loading on a launching thread.
loading_stretch as (
    select
        track_id,
        number,
        start_ns,
        end_ns
    from host_activity
    where
        rank = $rank
        and step = $step
        and kind = 'load_data'
        and end_ns is not null
        and (
            not exists (select 1 from gpu_event where gpu_event.rank = $rank)
            or exists (
                select 1 from gpu_event
                where
                    gpu_event.rank = $rank
                    and gpu_event.step = $step
                    and is_copy_to_device(gpu_event.name)
            )
        )
),

-- One row per merged span of the loader's and the profiler's time. Spans and stretches do not overlap among themselves:
-- if a span and a stretch overlap, one starts inside the other or both start together.
loader_time as (
    select
        lane as track_id,
        start_ns,
        end_ns
    from merged('loader', track_id)
),

-- One row per overlap of a loader with a stretch.
loader_in_stretch as (
    select
        loading_stretch.track_id,
        loading_stretch.number,
        loading_stretch.start_ns as since_ns,
        least(loader_time.end_ns, loading_stretch.end_ns) as until_ns
    from loading_stretch
    asof inner join loader_time
        on loading_stretch.track_id = loader_time.track_id and loading_stretch.start_ns >= loader_time.start_ns
    where loader_time.end_ns > loading_stretch.start_ns
    union all
    select
        loading_stretch.track_id,
        loading_stretch.number,
        loader_time.start_ns as since_ns,
        least(loader_time.end_ns, loading_stretch.end_ns) as until_ns
    from loader_time
    asof inner join loading_stretch
        on loader_time.track_id = loading_stretch.track_id and loader_time.start_ns > loading_stretch.start_ns
    where loading_stretch.end_ns > loader_time.start_ns
),

-- The remaining pieces of a stretch reach from the end of one loader to the start of the next.
border as (
    select
        track_id,
        number,
        start_ns as since_ns,
        start_ns as until_ns
    from loading_stretch
    union all
    select
        track_id,
        number,
        since_ns,
        until_ns
    from loader_in_stretch
    union all
    select
        track_id,
        number,
        end_ns as since_ns,
        end_ns as until_ns
    from loading_stretch
),

loader_gap as (
    select
        track_id,
        number,
        max(until_ns) over so_far as done_ns,
        lead(since_ns) over (partition by track_id, number order by since_ns, until_ns) as next_ns
    from border
    window
        so_far as (partition by track_id, number order by since_ns, until_ns rows unbounded preceding)
),

piece as (
    select
        track_id,
        row_number() over (partition by track_id order by done_ns) as number,
        done_ns as start_ns,
        next_ns as end_ns
    from loader_gap
    where next_ns > done_ns
),

-- One row per piece and event name, with the self time and the longest event. A join by time sorts all rows of both
-- sides, so it gets only the events between the first piece of the thread and the last.
name_in_piece as (
    select
        piece.number,
        piece.track_id,
        near_event.short_name,
        sum(near_event.self_ns) as self_ns,
        arg_max(near_event.event_id, (near_event.self_ns, -near_event.event_id)) as event_id
    from (
        select cpu_event.*
        from cpu_event
        inner join (
            select
                track_id,
                min(start_ns) as first_ns,
                max(end_ns) as last_ns
            from piece
            group by track_id
        ) as reach on cpu_event.track_id = reach.track_id
        where
            cpu_event.rank = $rank
            and cpu_event.start_ns >= reach.first_ns
            and cpu_event.start_ns < reach.last_ns
            and not is_step_mark(cpu_event.name)
    ) as near_event
    asof inner join piece on near_event.track_id = piece.track_id and near_event.start_ns >= piece.start_ns
    where near_event.start_ns < piece.end_ns
    group by piece.number, piece.track_id, near_event.short_name
),

longest_event as (
    select
        number,
        track_id,
        arg_max({'name': short_name, 'event_id': event_id}, (self_ns, short_name)) as top,
        sum(self_ns) as named_ns
    from name_in_piece
    group by number, track_id
)

-- If events cover less than half of a piece, the piece is named python. If no event begins inside the piece, an event
-- around it gives the name. Time covered only by the step's mark is excluded, because data preparation is not evident.
select
    coalesce(longest_event.top.event_id, before.event_id) as event_id,
    'host' as effect,
    piece.track_id,
    piece.start_ns,
    piece.end_ns,
    piece.end_ns - piece.start_ns as saved_ns,
    case
        when 2 * longest_event.named_ns < piece.end_ns - piece.start_ns then 'python'
        else coalesce(longest_event.top.name, if(earlier.end_ns > piece.start_ns, earlier.name, 'python'))
    end as name
from piece
left join longest_event on piece.number = longest_event.number and piece.track_id = longest_event.track_id
asof left join last_begun('cpu_event', $rank) as before
    on piece.track_id = before.track_id and piece.start_ns >= before.start_ns
left join cpu_event as earlier on earlier.rank = $rank and before.event_id = earlier.event_id
where
    not is_step_mark(coalesce(longest_event.top.name, earlier.name))
    and (
        longest_event.top is not null
        or piece.end_ns - piece.start_ns >= long_python_ns()
        or exists (
            select 1 from cpu_event as around
            where
                around.rank = $rank
                and around.track_id = piece.track_id
                and around.start_ns <= piece.start_ns
                and around.end_ns >= piece.end_ns
                and not is_step_mark(around.name)
        )
    )
order by event_id, piece.number
