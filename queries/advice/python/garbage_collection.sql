-- Python's garbage collector, or the emptying of PyTorch's cache of GPU memory, called by the program in a step.
--
-- Condition: frames of `gc.collect` and of torch/cuda/memory.py's `empty_cache`, recorded with stacks. Bound: the calls
-- take no time. Source: PyTorch, torch.cuda.empty_cache ("doesn't increase the amount of GPU memory available for
-- PyTorch"); Python, gc.
--
-- :reads event, nesting, label
-- :finding calls of {name}
-- :remedy Take them out of the loop, or call them every some hundred steps. Against pauses of Python's own collector:
--     gc.freeze() after the set-up, and gc.disable().
select
    event.event_id,
    'host' as effect,
    nesting.track_id,
    nesting.start_ns,
    nesting.end_ns,
    nesting.end_ns - nesting.start_ns as saved_ns,
    if(contains(event.name, 'empty_cache'), 'torch.cuda.empty_cache', 'gc.collect') as name
from event
inner join nesting on event.rank = nesting.rank and event.event_id = nesting.event_id
inner join label on event.rank = label.rank and event.event_id = label.event_id
where
    event.rank = $rank
    and label.step = $step
    and event.category = 'python_function'
    and is_memory_release_frame(event.name)
order by event.event_id
