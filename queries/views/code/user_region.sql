-- Every annotation on a CPU thread by the user or the user's framework, without PyTorch's own marks.
--
-- These are ranges of `record_function`, `hotline_analysis.annotate` and NVTX, and ranges of Lightning
-- (`[pl][profile]…`), Accelerate and Hugging Face. PyTorch's own marks are steps, calls of the optimizer and of the
-- data loader, collective calls, `forward` of wrappers for data parallelism, the marks of torch.compile
-- (torch/profiler, torch/optim/optimizer.py, torch/utils/data/dataloader.py, torch/csrc/distributed/c10d,
-- torch/distributed/fsdp, torch/_dynamo, torch/_inductor), and marks of whole phases in the spelling of PyTorch's
-- trainers (`## forward ##`), which tell the phase and no place in it.
--
-- :reads event, nesting, step
-- :column rank RANK
-- :column event_id BIGINT   the annotation
-- :column track_id BIGINT   thread of the annotation
-- :column depth BIGINT      number of events around the annotation
-- :column start_ns BIGINT   start
-- :column end_ns BIGINT     end
-- :column name VARCHAR      name of the annotation
select
    nesting.rank,
    nesting.event_id,
    nesting.track_id,
    nesting.depth,
    nesting.start_ns,
    nesting.end_ns,
    event.name
from event
inner join nesting on event.rank = nesting.rank and event.event_id = nesting.event_id
left join step on event.rank = step.rank and event.event_id = step.event_id
where
    event.category = 'user_annotation'
    and nesting.end_ns > nesting.start_ns
    and step.event_id is null
    and not is_mark_of_pytorch(event.name)
