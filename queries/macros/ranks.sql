-- What ranks send each other, and how gradients are reduced over them. Tables and CTEs are named in quotes.

-- Bytes that fill a bucket of gradients of DistributedDataParallel: `bucket_cap_mb` (MiB), or 25 if it is not given.
create or replace macro bucket_bytes(cap_mb) as
1048576 * coalesce(cap_mb, 25);

-- Bytes that fill the first one: 1 MiB if it is not given (torch/csrc/distributed/c10d/reducer.hpp,
-- kDefaultFirstBucketBytes, and `BucketCapacityConfig` in torch/nn/parallel/distributed.py).
create or replace macro first_bucket_bytes(cap_mb) as
1048576 * coalesce(cap_mb, 1);

-- Nanoseconds that a collective takes beside moving its bytes: 20 us. NCCL tests, small messages: 5 us within a node to
-- 50 us between nodes.
create or replace macro collective_latency_ns() as
20000;

-- How many times its bytes an all-reduce of so many ranks sends over the bus of each. NCCL tests, "Performance".
create or replace macro allreduce_share(ranks) as
2 * (ranks - 1) / ranks;

-- By what the bytes of a collective are multiplied for the bandwidth of the bus, which is the same for any number of
-- ranks. NULL when the collective or the number is unknown. nccl-tests, doc/PERFORMANCE.md.
create or replace macro bus_factor(collective, ranks) as
case
    when ranks is null then null
    when collective = 'allreduce' then 2.0 * (ranks - 1) / ranks
    when collective in ('allgather', 'reducescatter', 'alltoall') then 1.0 * (ranks - 1) / ranks
    when collective is not null then 1.0
end;

-- From so many groups on, the median is not moved by one of them that is slow.
create or replace macro least_groups_alike() as
3;

-- Gradients of each lane in the buckets of DistributedDataParallel (`compute_bucket_assignment_by_size` in
-- reducer.cpp): in order of their `place`, a bucket is full with the gradient that brings it to its bytes: those of the
-- first one of a lane and type, or those of the rest. `lane` is a column; gradients have `place`, `dtype` and `bytes`.
-- It has all of their columns, and `bucket`, from 0 on in the order of the last gradients of buckets. A lane in which a
-- size is not known has none.
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

    -- Buckets of each type, by the bytes at which they end.
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
