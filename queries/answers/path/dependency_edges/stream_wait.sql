-- One row per work that waited for work of another stream, by a CUDA event.
--
-- The waits come from synchronisation records, or else from calls. A wait is kept only if the times allow it: the other
-- work ended before the work started.
--
-- :reads called_wait, launch_batch, sync_record, window_work
-- :only_with called_wait or sync_record
-- :column to_place BIGINT    number of the waiting work, as in `window_work`
-- :column from_place BIGINT  number of the awaited work
-- :column end_ns BIGINT      end of the awaited work
-- :column kind VARCHAR       `event` if from a record, `wait` if from a call

-- one row per work that waits, and the work waited for, from records or calls
with waiting_work as materialized (
    -- Materialized, because the database would otherwise compare all pairs of work first.
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
