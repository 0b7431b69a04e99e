-- Buckets in which DistributedDataParallel would send the gradients of some steps.
--
-- A bucket can be sent when the last of its gradients is ready.
--
-- :param rank BIGINT                   the process rank
-- :param start_ns BIGINT               start of the first step on the CPU
-- :param end_ns BIGINT                 end of the last step on the CPU
-- :param bucket_mb DOUBLE >= 0 = NULL  `bucket_cap_mb`; NULL for the default: 25, with 1 for the first bucket
-- :param total_bytes DOUBLE = NULL     total size of these gradients; NULL to use the sizes in the trace
-- :reads gradient
-- :column step STEP
-- :column pass_ns BIGINT               backward pass, as in `gradient`
-- :column bucket BIGINT                number of the bucket in its pass, from 0
-- :column bytes BIGINT                 size of the bucket
-- :column gradient_count BIGINT        gradients in the bucket
-- :column event_id BIGINT              autograd node accumulating the last gradient
-- :column track_id BIGINT              thread accumulating the last gradient
-- :column end_ns BIGINT                end of this accumulation
-- :column ready_id BIGINT              GPU work computing the last gradient; NULL without GPU work
with asked_gradient as ( -- noqa: ST03
    select
        step,
        pass_ns,
        dense_rank() over (order by step, pass_ns) as lane,
        row_number() over (order by start_ns, event_id) as place,
        dtype,
        case
            when $total_bytes is null then bytes
            -- in proportion to the known sizes, or else evenly
            else (coalesce(bytes, 1) * $total_bytes / sum(coalesce(bytes, 1)) over ())::bigint
        end as bytes,
        event_id,
        track_id,
        end_ns,
        ready_id
    from gradient
    where rank = $rank and start_ns >= $start_ns and start_ns < $end_ns and step is not null
)

select
    step,
    pass_ns,
    bucket,
    sum(bytes)::bigint as bytes,
    count(*) as gradient_count,
    arg_max(event_id, place) as event_id,
    arg_max(track_id, place) as track_id,
    arg_max(end_ns, place) as end_ns,
    arg_max(ready_id, place) as ready_id
from bucketed('asked_gradient', lane, first_bucket_bytes($bucket_mb), bucket_bytes($bucket_mb))
group by step, pass_ns, bucket
order by step, pass_ns, bucket
