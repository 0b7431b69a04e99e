-- Synchronisation as seen by the GPU.
with parsed_event as (
    select
        event_id,
        from_json(
            args,
            '{"cuda_sync_kind":"VARCHAR","device":"BIGINT","context":"BIGINT","stream":"BIGINT",
              "wait_on_stream":"BIGINT","wait_on_cuda_event_id":"BIGINT","wait_on_cuda_event_record_corr_id":"BIGINT"}'
        ) as a
    from batch
    where category = 'cuda_sync' and args is not null
)

select
    event_id,
    a.cuda_sync_kind as kind,
    a.device,
    a.context,
    a.stream,
    a.wait_on_stream,
    a.wait_on_cuda_event_id as wait_on_event_id,
    a.wait_on_cuda_event_record_corr_id as wait_on_correlation,
    (a.cuda_sync_kind is not null)::integer + (a.device is not null)::integer + (a.context is not null)::integer
    + (a.stream is not null)::integer + (a.wait_on_stream is not null)::integer
    + (a.wait_on_cuda_event_id is not null)::integer
    + (a.wait_on_cuda_event_record_corr_id is not null)::integer as claimed
from parsed_event
