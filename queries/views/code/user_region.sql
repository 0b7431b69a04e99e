-- Every annotation on a CPU thread by the user or the user's framework, without PyTorch's own marks.
--
-- These are ranges of `record_function`, `hotline_analysis.annotate` and NVTX, and ranges of Lightning
-- (`[pl][profile]…`), Accelerate and Hugging Face. PyTorch's own marks are steps, calls of the optimizer and of the
-- data loader, collective calls, `forward` of wrappers for data parallelism, the marks of torch.compile
-- (torch/profiler, torch/optim/optimizer.py, torch/utils/data/dataloader.py, torch/csrc/distributed/c10d,
-- torch/distributed/fsdp, torch/_dynamo, torch/_inductor), and marks of whole phases in the spelling of PyTorch's
-- trainers (`## forward ##`), which tell the phase and no place in it.
--
-- :reads cpu_event, step
-- :column rank RANK
-- :column event_id BIGINT   the annotation
-- :column track_id BIGINT   thread of the annotation
-- :column depth BIGINT      number of events around the annotation
-- :column start_ns BIGINT   start
-- :column end_ns BIGINT     end
-- :column name VARCHAR      name of the annotation
select
    cpu_event.rank,
    cpu_event.event_id,
    cpu_event.track_id,
    cpu_event.depth,
    cpu_event.start_ns,
    cpu_event.end_ns,
    cpu_event.name
from cpu_event
left join step on cpu_event.rank = step.rank and cpu_event.event_id = step.event_id
where
    cpu_event.category = 'user_annotation'
    and cpu_event.end_ns > cpu_event.start_ns
    and step.event_id is null
    and not is_mark_of_pytorch(cpu_event.name)
