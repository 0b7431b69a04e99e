-- Predicted buckets of DistributedDataParallel: one row per gradient, with its bucket and the transfer time.
--
-- A bucket is sent when its last gradient is ready and the previous bucket is done.
--
-- :takes ranks, gb_per_s, bucket_mb
-- :reads accumulation, seen_bucket
-- :column place BIGINT         the gradient, as in `accumulation`
-- :column bucket BIGINT        number of the bucket in its pass, from 0
-- :column bucket_bytes BIGINT  size of the bucket
-- :column transfer_ns BIGINT   predicted duration of the reduction
-- :column exposed_ns BIGINT    part of the transfer after the last gradient of the pass is ready
with lone_gradient as ( -- noqa: ST03
    select *
    from accumulation
    where rank not in (select rank from seen_bucket)
),

gradient_of_bucket as (
    select * from bucketed('lone_gradient', lane, first_bucket_bytes($bucket_mb), bucket_bytes($bucket_mb))
),

-- one row per bucket of a pass: its size, transfer time and the time at which it is ready
bucket as (
    select
        lane,
        bucket,
        max(ready_ns) as ready_ns,
        any_value(end_ns) as backward_ns,
        sum(bytes)::bigint as bytes,
        collective_latency_ns() + allreduce_share($ranks) * sum(bytes) / nullif($gb_per_s, 0) as transfer_ns
    from gradient_of_bucket
    group by lane, bucket
),

queued_bucket as (
    select
        *,
        sum(transfer_ns) over in_order as sent_ns
    from bucket
    window in_order as (partition by lane order by bucket rows unbounded preceding)
),

-- A bucket is done when all buckets since an earlier one have been sent back to back, starting when that earlier bucket
-- was ready. The latest of these times counts.
done_bucket as (
    select
        *,
        sent_ns + max(ready_ns - (sent_ns - transfer_ns)) over (
            partition by lane order by bucket rows unbounded preceding
        ) as done_ns
    from queued_bucket
)

select
    gradient_of_bucket.place,
    gradient_of_bucket.bucket,
    done_bucket.bytes as bucket_bytes,
    round(done_bucket.transfer_ns)::bigint as transfer_ns,
    -- remaining transfer after backward
    round(greatest(0, least(done_bucket.transfer_ns, done_bucket.done_ns - done_bucket.backward_ns)))::bigint
        as exposed_ns
from gradient_of_bucket
inner join done_bucket
    on gradient_of_bucket.lane = done_bucket.lane and gradient_of_bucket.bucket = done_bucket.bucket
where done_bucket.transfer_ns is not null
