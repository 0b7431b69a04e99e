-- GPU work of each stream in order, with the step, phase and module of its launch.
--
-- :param rank BIGINT = NULL    only this rank
-- :reads gpu_event
-- :column rank RANK
-- :column event_id BIGINT      the GPU event
-- :column device DEVICE        -1 without a device
-- :column stream BIGINT        stream; -1 if the event has no stream
-- :column start_ns BIGINT      start
-- :column end_ns BIGINT        end
-- :column step STEP            NULL if unknown
-- :column phase PHASE          NULL if unknown
-- :column module_id BIGINT     module; NULL if unknown
-- :column pass VARCHAR         forward, backward or recompute; NULL if the module is unknown
select
    rank,
    event_id,
    device,
    stream_of(stream) as stream,
    start_ns,
    end_ns,
    step,
    phase,
    module_id,
    pass
from gpu_event
where is_asked($rank, rank)
order by rank, device, stream, start_ns, event_id
