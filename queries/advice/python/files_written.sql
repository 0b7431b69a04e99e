-- Files written by the training loop in a step, while training waits: checkpoints, pictures, logs.
--
-- Condition: python frames (`with_stack`) of calls that write, flush or save, or regions with such a name, outside of
-- forward and backward, where `checkpoint` means activations. Bound: the calls take no time, because another process or
-- thread writes. Source: PyTorch, "Asynchronous Saving with Distributed Checkpoint"
-- (torch.distributed.checkpoint.async_save); Python, `os.fsync`: the call returns when the data is on the disk.
--
-- :reads cpu_event, name_info, user_frame
-- :only_with name_info where category in ('user_annotation', 'python_function')
-- :finding calls that write files, most of it in {name}
-- :remedy Write every some steps, in a thread or process of its own (torch.distributed.checkpoint.async_save for
--     checkpoints); let the logger buffer, and leave out fsync.
with call as (
    -- One row per outermost call that writes.
    select
        cpu_event.event_id,
        cpu_event.track_id,
        cpu_event.start_ns,
        cpu_event.end_ns,
        cpu_event.parent_id,
        cpu_event.name
    from name_info
    inner join cpu_event
        on
            (cpu_event.rank, cpu_event.category, cpu_event.name)
            = (name_info.rank, name_info.category, name_info.name)
    where
        cpu_event.rank = $rank
        and cpu_event.step = $step
        and cpu_event.phase not in ('forward', 'backward')
        and is_writing_call(name_info.category, name_info.name)
    qualify is_outermost(cpu_event.start_ns, cpu_event.end_ns, cpu_event.track_id, cpu_event.depth)
)

-- A call is named after the calling user function, if in the trace.
select
    call.event_id,
    'host' as effect,
    call.track_id,
    call.start_ns,
    call.end_ns,
    call.end_ns - call.start_ns as saved_ns,
    coalesce(
        user_frame.function || ' (' || user_frame.source || ')',
        regexp_replace(regexp_replace(call.name, ' object at 0x\w+', ''), '^.*/', '')
    ) as name
from call
left join user_frame on user_frame.rank = $rank and call.parent_id = user_frame.event_id
order by call.event_id
