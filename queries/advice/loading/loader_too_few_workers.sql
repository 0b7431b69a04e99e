-- A DataLoader whose workers do not have the next batch ready when requested.
--
-- Condition: PyTorch's annotation for a DataLoader with workers. Bound: the batch is ready when requested. Source:
-- PyTorch performance tuning guide, "Enable asynchronous data loading and augmentation"; TensorBoard's PyTorch
-- profiler, advice on the DataLoader.
--
-- :reads cpu_event
-- :finding waits for a batch that the workers of the DataLoader do not have yet
-- :remedy Give the DataLoader more workers (num_workers), let them run further ahead (prefetch_factor), or make each
--     batch cheaper to prepare.
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
    and starts_with(name, 'enumerate(DataLoader)#_MultiProcessingDataLoaderIter')
order by event_id
