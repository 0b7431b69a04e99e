-- Data that the training loop prepares by itself, while the GPU has nothing to do.
--
-- Condition: time in which a thread that launches work loads data (`load_data` in `host_activity`), in a trace without
-- a DataLoader. Bound: the data is there when it is asked for. Source: PyTorch performance tuning guide, "Enable
-- asynchronous data loading and augmentation".
--
-- :reads host_activity, event, nesting, name_info
-- :what stretches in which the loop itself prepares data, most of it in {name}
-- :do Prepare it in a Dataset whose DataLoader has workers, so that it is done while the model computes, or once before
--     the run.
with piece as (
    select *
    from host_activity
    where
        rank = $rank
        and step = $step
        and kind = 'load_data'
        and end_ns is not null
        and not exists (
            select 1 from event where event.rank = $rank and starts_with(event.name, 'enumerate(DataLoader)')
        )
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
        arg_max({'name': short_name, 'event_id': event_id}, (self_ns, short_name)) as top
    from inside
    group by number, track_id
)

select
    longest.top.event_id,
    'host' as effect,
    piece.track_id,
    piece.start_ns,
    piece.end_ns,
    piece.end_ns - piece.start_ns as saved_ns,
    longest.top.name
from piece
inner join longest on piece.number = longest.number and piece.track_id = longest.track_id
order by longest.top.event_id, piece.number
