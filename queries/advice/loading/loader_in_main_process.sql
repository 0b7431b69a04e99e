-- A DataLoader without workers: the training process prepares batches while the GPU waits.
--
-- Condition: PyTorch's annotation for a DataLoader with num_workers=0. Bound: the batch is ready when requested.
-- Source: PyTorch performance tuning guide, "Enable asynchronous data loading and augmentation".
--
-- :reads event, nesting, label
-- :finding batches that the DataLoader makes in the main process
-- :remedy Give the DataLoader workers (num_workers), so that batches are made while the model computes; the scenario
--     `loader` of `hotline whatif` counts how many keep up.
-- :scenario loader
select
    event.event_id,
    'host' as effect,
    nesting.track_id,
    nesting.start_ns,
    nesting.end_ns,
    nesting.end_ns - nesting.start_ns as saved_ns,
    event.name
from event
inner join nesting on event.rank = nesting.rank and event.event_id = nesting.event_id
inner join label on event.rank = label.rank and event.event_id = label.event_id
where
    event.rank = $rank
    and label.step = $step
    and event.category in ('user_annotation', 'cpu_op')
    and starts_with(event.name, 'enumerate(DataLoader)#_SingleProcessDataLoaderIter')
order by event.event_id
