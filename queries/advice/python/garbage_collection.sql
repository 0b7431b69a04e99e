-- Python's garbage collector, or the emptying of PyTorch's cache of GPU memory, called by the program in a step.
--
-- Condition: frames of `gc.collect` and of torch/cuda/memory.py's `empty_cache`, recorded with stacks. Bound: the calls
-- take no time. Source: PyTorch, torch.cuda.empty_cache ("doesn't increase the amount of GPU memory available for
-- PyTorch"); Python, gc.
--
-- :reads cpu_event
-- :finding calls of {name}
-- :remedy Take them out of the loop, or call them every some hundred steps. Against pauses of Python's own collector:
--     gc.freeze() after the set-up, and gc.disable().
select
    event_id,
    'host' as effect,
    track_id,
    start_ns,
    end_ns,
    end_ns - start_ns as saved_ns,
    if(contains(name, 'empty_cache'), 'torch.cuda.empty_cache', 'gc.collect') as name
from cpu_event
where
    rank = $rank
    and step = $step
    and category = 'python_function'
    and is_memory_release_frame(name)
order by event_id
