-- A DataLoader whose workers do not have the next batch ready when requested.
--
-- Condition: PyTorch's annotation for a DataLoader with workers. Bound: the batch is ready when requested. Source:
-- PyTorch performance tuning guide, "Enable asynchronous data loading and augmentation"; TensorBoard's PyTorch
-- profiler, advice on the DataLoader.
--
-- :reads event, nesting, label
-- :finding waits for a batch that the workers of the DataLoader do not have yet
-- :remedy Give the DataLoader more workers (num_workers), let them run further ahead (prefetch_factor), or make each
--     batch cheaper to prepare.
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
    and starts_with(event.name, 'enumerate(DataLoader)#_MultiProcessingDataLoaderIter')
order by event.event_id
