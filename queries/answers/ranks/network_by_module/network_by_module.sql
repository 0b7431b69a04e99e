-- Network traffic of each module when its gradients are reduced: bytes, start, and exposed time.
--
-- A row has the gradients of one module in one bucket of DistributedDataParallel, in the order of sending. All times
-- are means over backward passes. If the trace shows the reduction on a GPU (`is_measured`), buckets and times are
-- measured, including waits for other ranks.
--
-- Otherwise buckets and times are predicted, for a trace of one rank. Gradients fill the buckets in the order of
-- accumulation: 1 MiB in the first bucket and 25 MiB in later ones. An all-reduce starts after the previous one and
-- takes 20 us plus 2(n-1)/n of its bytes at the bus bandwidth. The sum of `exposed_ns` over all rows is the time a pass
-- waits for the network. Data parallelism is slow because of layers with many bytes and no slack.
--
-- Sizes come from the shapes of the parameters, or from the model table of a capture. In the latter case, the gradients
-- of a module are assumed to have equal sizes, so the ends of buckets are approximate.
--
-- :param rank BIGINT = NULL               only this rank
-- :param step BIGINT = NULL               only this step
-- :param module VARCHAR = NULL            only this module and its submodules, by path
-- :param ranks BIGINT >= 2 = 8            number of ranks training together
-- :param gb_per_s DOUBLE >= 0 = 50        bus bandwidth of the network, such as between two nodes
-- :param bucket_mb DOUBLE >= 0 = NULL     MiB per bucket (`bucket_cap_mb`); default 25, with 1 for the first bucket
-- :reads accumulation, seen_bucket, predicted_bucket
-- :column rank RANK
-- :column bucket BIGINT          number of the bucket, from 0; NULL if sizes are unknown
-- :column module_path VARCHAR    module; NULL if unknown
-- :column gradient_count DOUBLE  gradients of the module in the bucket
-- :column bytes BIGINT           size of these gradients; NULL if unknown
-- :column evidence VARCHAR       source of the size: shapes or model; NULL if unknown
-- :column ready_ns BIGINT        time from the start of backward until the last of these gradients is ready; NULL if
--                                unknown
-- :column slack_ns BIGINT        time from then until the last gradient of the pass is ready
-- :column bucket_bytes BIGINT    size of the whole bucket; NULL if unknown
-- :column transfer_ns BIGINT     duration of reducing the whole bucket; NULL if unknown
-- :column exposed_ns BIGINT      exposed part of this duration, multiplied by the module's share of the bytes; NULL if
--                                unknown
-- :column is_measured BOOLEAN    the trace shows the reduction of the bucket

-- one row per gradient with a measured or predicted bucket
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

-- With the module's share of the bucket: 1 if the module is alone in the bucket, even without a size.
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
