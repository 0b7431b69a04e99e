-- What each module sends over the network when its gradients are reduced: how much, from when on, and what it costs.
--
-- A row is a module's gradients in one bucket of DistributedDataParallel, in the order in which buckets are sent; all
-- times are means over backward passes. Where the trace shows its gradients to be reduced on a GPU (`is_measured`),
-- buckets and times are those, waiting for other ranks included. Else they are predicted, of a trace of one rank:
-- gradients in the order in which they are accumulated, 1 MiB in the first bucket and 25 MiB in the others; an
-- all-reduce takes 20 us and 2 (n - 1) / n of its bytes at the bus bandwidth, after the one before it. `exposed_ns` of
-- all rows add up to what a pass waits for the network. A layer with many bytes and no slack is what makes data
-- parallelism slow.
--
-- Sizes are those of the parameters' shapes, or of the model's table of a capture: then the gradients of a module are
-- taken to be of one size, so the ends of buckets are near.
--
-- :param rank BIGINT = NULL               only this rank
-- :param step BIGINT = NULL               only this step
-- :param module VARCHAR = NULL            only this module and those in it, by path
-- :param ranks BIGINT >= 2 = 8            how many ranks would train together
-- :param gb_per_s DOUBLE >= 0 = 50        bus bandwidth of the network, as between two nodes
-- :param bucket_mb DOUBLE >= 0 = NULL     MiB in a bucket (`bucket_cap_mb`); by default 25, of which the first has 1
-- :reads accumulation, seen_bucket, predicted_bucket
-- :column rank BIGINT            process rank
-- :column bucket BIGINT          number of the bucket, from 0; NULL where sizes are not known
-- :column module_path VARCHAR    the module; NULL where none is known
-- :column gradient_count DOUBLE  gradients of it in the bucket
-- :column bytes BIGINT           their size; NULL where nothing tells it
-- :column evidence VARCHAR       what tells it: shapes or model; NULL where nothing does
-- :column ready_ns BIGINT        from the start of backward until the last of them is ready; NULL if that is unknown
-- :column slack_ns BIGINT        from then until the last gradient of all is ready
-- :column bucket_bytes BIGINT    size of the whole bucket; NULL if unknown
-- :column transfer_ns BIGINT     how long the whole bucket is reduced; NULL if unknown
-- :column exposed_ns BIGINT      of that, what nothing hides, by this module's share of the bytes; NULL if unknown
-- :column is_measured BOOLEAN    the trace shows the bucket to be reduced
with sent_gradient as (
    select
        place,
        bucket,
        bucket_bytes,
        transfer_ns,
        exposed_ns,
        true as is_measured
    from seen_bucket
    union all
    select
        place,
        bucket,
        bucket_bytes,
        transfer_ns,
        exposed_ns,
        false
    from predicted_bucket
),

-- A module's gradients in one bucket of one pass.
part_of_pass as (
    select
        accumulation.rank,
        accumulation.lane,
        sent_gradient.bucket,
        accumulation.module_path,
        count(*) as gradient_count,
        if(count(*) = count(accumulation.bytes), sum(accumulation.bytes), null)::bigint as bytes,
        any_value(accumulation.evidence) as evidence,
        max(accumulation.ready_ns) - any_value(accumulation.begin_ns) as ready_ns,
        any_value(accumulation.end_ns) - max(accumulation.ready_ns) as slack_ns,
        any_value(sent_gradient.bucket_bytes) as bucket_bytes,
        any_value(sent_gradient.transfer_ns) as transfer_ns,
        any_value(sent_gradient.exposed_ns) as exposed_ns,
        coalesce(any_value(sent_gradient.is_measured), false) as is_measured
    from accumulation
    left join sent_gradient on accumulation.place = sent_gradient.place
    group by accumulation.rank, accumulation.lane, sent_gradient.bucket, accumulation.module_path
),

-- With its share of the bucket: what has it alone has all of it, whatever its size.
shared_part as (
    select
        *,
        case
            when count(*) over whole_bucket = 1 then 1
            when count(*) over whole_bucket = count(bytes) over whole_bucket
                then bytes / sum(bytes) over whole_bucket
        end as share
    from part_of_pass
    window whole_bucket as (partition by lane, bucket)
),

pass_of_rank as (
    select
        rank,
        count(distinct lane) as pass_count
    from accumulation
    group by rank
)

select
    shared_part.rank,
    shared_part.bucket,
    shared_part.module_path,
    sum(shared_part.gradient_count) / any_value(pass_of_rank.pass_count) as gradient_count,
    if(count(*) = count(shared_part.bytes), round(sum(shared_part.bytes) / any_value(pass_of_rank.pass_count)), null)
    ::bigint as bytes,
    any_value(shared_part.evidence) as evidence,
    round(avg(shared_part.ready_ns))::bigint as ready_ns,
    round(avg(shared_part.slack_ns))::bigint as slack_ns,
    round(avg(shared_part.bucket_bytes))::bigint as bucket_bytes,
    round(avg(shared_part.transfer_ns))::bigint as transfer_ns,
    if(
        count(*) = count(shared_part.share),
        round(sum(shared_part.share * shared_part.exposed_ns) / any_value(pass_of_rank.pass_count)), null
    )
    ::bigint as exposed_ns,
    shared_part.is_measured
from shared_part
inner join pass_of_rank on shared_part.rank = pass_of_rank.rank
where in_module(shared_part.module_path, $module)
group by shared_part.rank, shared_part.bucket, shared_part.module_path, shared_part.is_measured
order by shared_part.rank, shared_part.bucket nulls last, ready_ns, shared_part.module_path nulls last
