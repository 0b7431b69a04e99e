-- A DataLoader without workers: the training process prepares batches while the GPU waits.
--
-- Condition: PyTorch's annotation for a DataLoader with num_workers=0. Bound: the batch is ready when requested.
-- Source: PyTorch performance tuning guide, "Enable asynchronous data loading and augmentation".
--
-- :reads cpu_event
-- :finding batches that the DataLoader makes in the main process
-- :remedy Give the DataLoader workers (num_workers), so that batches are made while the model computes; the scenario
--     `loader` of `hotline whatif` counts how many keep up.
-- :scenario loader
select
    event_id,
    'host' as effect,
    track_id,
    start_ns,
    end_ns,
    end_ns - start_ns as saved_ns,
    name
from cpu_event
where
    rank = $rank
    and step = $step
    and category in ('user_annotation', 'cpu_op')
    and starts_with(name, 'enumerate(DataLoader)#_SingleProcessDataLoaderIter')
order by event_id
