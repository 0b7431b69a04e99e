-- Communication between ranks, and the reduction of gradients. Pass names of tables and CTEs in quotes.

-- Bytes of a full gradient bucket of DistributedDataParallel: `bucket_cap_mb` (MiB), or 25 MiB by default.
create or replace macro bucket_bytes(cap_mb) as
1048576 * coalesce(cap_mb, 25);

-- Bytes of the first bucket: 1 MiB by default (torch/csrc/distributed/c10d/reducer.hpp, kDefaultFirstBucketBytes, and
-- `BucketCapacityConfig` in torch/nn/parallel/distributed.py).
create or replace macro first_bucket_bytes(cap_mb) as
1048576 * coalesce(cap_mb, 1);

-- Latency of a collective in nanoseconds, in addition to the transfer time: 20 us. NCCL tests with small messages
-- measure 5 us within a node and 50 us between nodes.
create or replace macro collective_latency_ns() as
20000;

-- Bytes sent over each rank's bus by an all-reduce, as a multiple of the tensor's bytes. NCCL tests, "Performance".
create or replace macro allreduce_share(ranks) as
2 * (ranks - 1) / ranks;

-- Factor from a collective's bytes to bus bytes. The resulting bus bandwidth does not depend on the number of ranks.
-- NULL if the collective or the number of ranks is unknown. nccl-tests, doc/PERFORMANCE.md.
create or replace macro bus_factor(collective, ranks) as
case
    when ranks is null then null
    when collective = 'allreduce' then 2.0 * (ranks - 1) / ranks
    when collective in ('allgather', 'reducescatter', 'alltoall') then 1.0 * (ranks - 1) / ranks
    when collective is not null then 1.0
end;

-- Fewest groups for which one slow group does not move the median.
create or replace macro least_groups_alike() as
3;

-- Gradients of each lane, assigned to buckets as in DistributedDataParallel (`compute_bucket_assignment_by_size` in
-- reducer.cpp). Gradients are added in order of `place`, and a bucket is full as soon as its bytes reach the limit. The
-- first bucket of a lane and type has its own limit.
--
-- `lane` is a column; gradients have `place`, `dtype` and `bytes`. The result has all columns of the gradients and
-- `bucket`, counted from 0 in the order of the buckets' last gradients. A lane with a gradient of unknown size has no
-- rows.
create or replace macro bucketed(gradients, lane, first_bytes, rest_bytes) as table
    with recursive sized_gradient as (
        select
            *,
            lane as lane_of_bucket,
            coalesce(dtype, '') as type_of_bucket,
            sum(bytes) over (
                partition by lane, coalesce(dtype, '') order by place rows unbounded preceding
            )::bigint as until_bytes
        from query_table(gradients)
        qualify count(*) over (partition by lane) = count(bytes) over (partition by lane)
    ),

    -- Buckets of each type, with the cumulative bytes at the bucket's end.
    full_bucket as (
        select
            lane_of_bucket,
            type_of_bucket,
            0::bigint as number,
            coalesce(min(until_bytes) filter (where until_bytes >= first_bytes), max(until_bytes)) as full_bytes
        from sized_gradient
        group by lane_of_bucket, type_of_bucket
        union all
        select
            full_bucket.lane_of_bucket,
            full_bucket.type_of_bucket,
            full_bucket.number + 1,
            coalesce(
                min(sized_gradient.until_bytes) filter (
                    where sized_gradient.until_bytes >= full_bucket.full_bytes + rest_bytes
                ),
                max(sized_gradient.until_bytes)
            )
        from full_bucket
        inner join sized_gradient
            on
                full_bucket.lane_of_bucket = sized_gradient.lane_of_bucket
                and full_bucket.type_of_bucket = sized_gradient.type_of_bucket
                and full_bucket.full_bytes < sized_gradient.until_bytes
        group by
            full_bucket.lane_of_bucket, full_bucket.type_of_bucket, full_bucket.number, full_bucket.full_bytes
    ),

    gradient_of_bucket as (
        select
            sized_gradient.*,
            full_bucket.number,
            max(sized_gradient.place) over (
                partition by sized_gradient.lane_of_bucket, sized_gradient.type_of_bucket, full_bucket.number
            ) as last_place
        from sized_gradient
        asof inner join full_bucket
            on
                sized_gradient.lane_of_bucket = full_bucket.lane_of_bucket
                and sized_gradient.type_of_bucket = full_bucket.type_of_bucket
                and sized_gradient.until_bytes <= full_bucket.full_bytes
    )

    select
        * exclude (lane_of_bucket, type_of_bucket, until_bytes, number, last_place),
        dense_rank() over (partition by lane_of_bucket order by last_place) - 1 as bucket
    from gradient_of_bucket;

-- Collective of a name without separators, in lower case: of a kernel, an op or a mark. NULL for other names.
create or replace macro collective_of_name(name) as
case
    when contains(name, 'allreduce') then 'allreduce'
    when contains(name, 'reducescatter') then 'reducescatter'
    when contains(name, 'allgather') then 'allgather'
    when contains(name, 'alltoall') or contains(name, 'all2all') then 'alltoall'
    when contains(name, 'broadcast') then 'broadcast'
    when contains(name, 'barrier') then 'barrier'
    when contains(name, 'scatter') then 'scatter'
    when contains(name, 'gather') then 'gather'
    when regexp_matches(name, '(^|kernel|coalesced)reduce') then 'reduce'
    when contains(name, 'sendrecv') then 'sendrecv'
    when contains(name, 'send') then 'send'
    when contains(name, 'recv') then 'recv'
end;

-- Whether a process group exchanges tokens between experts, by its description in lower case.
create or replace macro is_expert_group(description) as
regexp_matches(description, '(^|[^a-z])(ep|moe)([^a-z]|$)|expert');

-- Whether a process group splits tensors or sequences of a layer, by its description in lower case.
create or replace macro is_tensor_group(description) as
regexp_matches(description, '(^|[^a-z])(tp|sp|cp|tensor|sequence|context)([^a-z]|$)|tensor_model_parallel');
