-- Data that the training loop prepares by itself, outside of any DataLoader, while the GPU has nothing to do.
--
-- Condition: time in which a thread that launches work loads data (`load_data` in `host_activity`), outside of the
-- annotations that PyTorch gives DataLoaders; where the trace has GPU work, a step that copies something to the GPU, as
-- what the CPU prepares has to get there. Bound: the data is there when it is asked for. Source: PyTorch performance
-- tuning guide, "Enable asynchronous data loading and augmentation".
--
-- :reads host_activity, event, nesting, name_info, gpu_work, gpu_op
-- :what stretches in which the loop itself prepares data, most of it in {name}
-- :do Prepare it in a Dataset whose DataLoader has workers, so that it is done while the model computes, or once before
--     the run.
with loader as ( -- noqa: ST03
    select
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns
    from event
    inner join nesting on event.rank = nesting.rank and event.event_id = nesting.event_id
    where
        event.rank = $rank
        and event.category in ('user_annotation', 'cpu_op')
        and starts_with(event.name, 'enumerate(DataLoader)')
),

loading as (
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
            not exists (select 1 from gpu_op where gpu_op.rank = $rank)
            or exists (
                select 1 from gpu_work
                where
                    gpu_work.rank = $rank
                    and gpu_work.step = $step
                    and regexp_matches(gpu_work.name, 'HtoD|HostToDevice|Host -> Device')
            )
        )
),

-- Time of loaders in stretches. Neither overlap each other, so one of both starts in the other, or where that does.
loader_time as (
    select
        lane as track_id,
        start_ns,
        end_ns
    from merged('loader', track_id)
),

loader_in_stretch as (
    select
        loading.track_id,
        loading.number,
        loading.start_ns as since_ns,
        least(loader_time.end_ns, loading.end_ns) as until_ns
    from loading
    asof inner join loader_time
        on loading.track_id = loader_time.track_id and loading.start_ns >= loader_time.start_ns
    where loader_time.end_ns > loading.start_ns
    union all
    select
        loading.track_id,
        loading.number,
        loader_time.start_ns as since_ns,
        least(loader_time.end_ns, loading.end_ns) as until_ns
    from loader_time
    asof inner join loading
        on loader_time.track_id = loading.track_id and loader_time.start_ns > loading.start_ns
    where loading.end_ns > loader_time.start_ns
),

-- What is left of each stretch between its loaders: from where one ends to where the next begins.
border as (
    select
        track_id,
        number,
        start_ns as since_ns,
        start_ns as until_ns
    from loading
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
    from loading
),

between_loaders as (
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
    from between_loaders
    where next_ns > done_ns
),

inside as (
    select
        piece.number,
        piece.track_id,
        name_info.short_name,
        sum(nesting.self_ns) as self_ns,
        arg_max(nesting.event_id, (nesting.self_ns, -nesting.event_id)) as event_id
    from nesting
    asof inner join piece on nesting.track_id = piece.track_id and nesting.start_ns >= piece.start_ns
    inner join event on nesting.rank = event.rank and nesting.event_id = event.event_id
    inner join name_info
        on (event.rank, event.category, event.name) = (name_info.rank, name_info.category, name_info.name)
    where nesting.rank = $rank and nesting.start_ns < piece.end_ns and not starts_with(event.name, 'ProfilerStep#')
    group by piece.number, piece.track_id, name_info.short_name
),

longest as (
    select
        number,
        track_id,
        arg_max({'name': short_name, 'event_id': event_id}, (self_ns, short_name)) as top,
        sum(self_ns) as named_ns
    from inside
    group by number, track_id
)

-- Where events have less than half of a piece, python has most. Where none begins inside of it, the event that began
-- last before names it. Of time that only the step's mark tells of, nobody knows that it prepares data.
select
    coalesce(longest.top.event_id, before.event_id) as event_id,
    'host' as effect,
    piece.track_id,
    piece.start_ns,
    piece.end_ns,
    piece.end_ns - piece.start_ns as saved_ns,
    if(2 * longest.named_ns < piece.end_ns - piece.start_ns, 'python', coalesce(longest.top.name, event.name)) as name
from piece
left join longest on piece.number = longest.number and piece.track_id = longest.track_id
asof left join last_begun('nesting', $rank) as before
    on piece.track_id = before.track_id and piece.start_ns >= before.start_ns
left join event on event.rank = $rank and before.event_id = event.event_id
where not starts_with(coalesce(longest.top.name, event.name), 'ProfilerStep#')
order by event_id, piece.number
