-- A row is work before which its stream waited for other work, by a CUDA event.
--
-- Synchronisation records tell of it, or else calls; of what calls seem to tell, that is kept which times do not
-- contradict: the other was over when the work started.
--
-- :reads called_wait, launch_batch, sync_record, window_work
-- :only_with called_wait or sync_record
-- :column to_place BIGINT    number of the work that waited, as in `window_work`
-- :column from_place BIGINT  number of the other
-- :column end_ns BIGINT      when the other ended
-- :column kind VARCHAR       event if a record tells, wait if a call does
with waiting_work as materialized (
    -- Materialized, as the database would else compare each work with each first, expecting to find none.
    select
        held.place,
        held.start_ns,
        source.last_id,
        'event' as kind
    from (
        select
            sync_record.device,
            sync_record.recorded_ns,
            sync_record.wait_on_stream,
            launch_batch.first_id
        from sync_record
        asof inner join launch_batch
            on
                sync_record.device = launch_batch.device
                and sync_record.stream = launch_batch.stream
                and sync_record.at_ns <= launch_batch.launched_ns
        where sync_record.kind = 'Stream Wait Event'
    ) as waiting
    asof inner join launch_batch as source
        on
            waiting.device = source.device
            and waiting.wait_on_stream = source.stream
            and waiting.recorded_ns > source.launched_ns
    inner join window_work as held on waiting.first_id = held.event_id
    union
    select
        held.place,
        held.start_ns,
        called_wait.last_id,
        'wait'
    from called_wait
    inner join window_work as held on called_wait.first_id = held.event_id
)

select distinct
    waiting_work.place as to_place,
    awaited.place as from_place,
    awaited.end_ns,
    waiting_work.kind
from waiting_work
inner join window_work as awaited on waiting_work.last_id = awaited.event_id
where awaited.end_ns <= waiting_work.start_ns and awaited.place < waiting_work.place
