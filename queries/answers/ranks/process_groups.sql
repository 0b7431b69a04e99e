-- How fast the collectives of each process group go, beside those of groups alike: where a link is slow.
--
-- Groups are alike if they have as many ranks, in the same distances from each other, so that each reaches as far over
-- the network: groups of 0 to 7 and of 8 to 15, but not of 0, 8, 16 and so on. What counts of a collective is its
-- transfer, from the last rank's start to the end on the rank where that takes least, so waiting for a late rank makes
-- none slow. `usual_ns` is the time at the median of at least three groups alike, for each type and size of message. A
-- group is slow if it takes longer than that and is an outlier (`oddity` above 3.5, as in `ranks`), which of few groups
-- one can be by chance. Slow groups that are not alike and share one rank point at this rank's links.
--
-- A group of which the run lacks a rank, or does not know the size, is compared with none: that rank may have come
-- last. Messages of all-to-all, gather and scatter differ between ranks, so there their sizes do not count.
--
-- :param rank BIGINT = NULL            only the groups of this rank
-- :param step BIGINT = NULL            only this step
-- :reads collective_match
-- :column rank BIGINT                  lowest rank of the group in this run
-- :column group_name VARCHAR           process group; NULL when the trace does not say
-- :column group_ranks VARCHAR          those of its ranks that this run has, as a JSON list
-- :column group_size BIGINT            ranks that take part; NULL when unknown
-- :column name VARCHAR                 allreduce, allgather, …
-- :column collective_count BIGINT      such collectives of the group
-- :column bytes BIGINT                 sum of their messages; NULL when the size of one is unknown
-- :column transfer_ns BIGINT           time that they transferred
-- :column bus_gb_per_s DOUBLE          bandwidth, as in `collectives`; NULL when `bytes` or `group_size` is
-- :column alike_count BIGINT           groups with which it is compared, itself included; 0 if it is compared with none
-- :column compared_ns BIGINT           time of the messages that at least three groups alike have, each kind at the
--                                      median of the group's own calls, so that a single slow call does not count
-- :column usual_ns BIGINT              time that these take at the median of the groups alike
-- :column slower DOUBLE                how many times as long they take; NULL without any
-- :column oddity DOUBLE                modified z-score of `slower` among groups alike; NULL where all are equal
-- :column is_slow BOOLEAN              it is an outlier, and slower than usual
-- :column example_event_id BIGINT      the collective of the longest transfer, on the lowest rank
with call as (
    select
        match_id,
        any_value(group_name) as group_name,
        any_value(name) as name,
        any_value(group_size) as group_size,
        max(bytes) as bytes,
        -- Of a rank that starts last and ends first, as clocks may have it, nothing is left.
        coalesce(min(nullif(transfer_ns, 0)), 0) as transfer_ns,
        arg_min(event_id, rank) as event_id,
        list(rank order by rank) as ranks,
        case
            when any_value(name) in ('alltoall', 'gather', 'scatter') then ''
            else concat(any_value(dtype), ' ', max(bytes))
        end as message
    from collective_match
    where is_asked($step, step)
    group by match_id
),

process_group as (
    select
        group_name,
        ranks,
        name,
        any_value(group_size) as group_size,
        count(*) as collective_count,
        case when count(*) = count(bytes) then sum(bytes)::bigint end as bytes,
        sum(transfer_ns)::bigint as transfer_ns,
        arg_max(event_id, (transfer_ns, -event_id)) as example_event_id,
        list_transform(ranks, lambda each: each - ranks[1]) as distances
    from call
    group by group_name, ranks, name
),

-- A kind of message of a group that is whole: how long one takes in the median.
message_pace as (
    select
        group_name,
        ranks,
        name,
        message,
        list_transform(ranks, lambda each: each - ranks[1]) as distances,
        sum(transfer_ns) as transfer_ns,
        count(*) as call_count,
        quantile_disc(transfer_ns, 0.5) as call_ns
    from call
    where len(ranks) = group_size
    group by group_name, ranks, name, message
),

usual_message as (
    select
        *,
        quantile_disc(call_ns, 0.5) over alike as usual_call_ns
    from message_pace
    window alike as (partition by distances, name, message)
    qualify count(*) over alike >= least_groups_alike()
),

pace as (
    select
        group_name,
        ranks,
        name,
        any_value(distances) as distances,
        sum(call_count * call_ns)::bigint as compared_ns,
        sum(call_count * usual_call_ns)::bigint as usual_ns,
        sum(call_count * call_ns)::double / nullif(sum(call_count * usual_call_ns), 0) as slower
    from usual_message
    group by group_name, ranks, name
),

distance as (
    select
        *,
        count(*) over alike as alike_count,
        abs(slower - median(slower) over alike) as slower_off
    from pace
    window alike as (partition by distances, name)
),

judged as (
    select
        *,
        modified_z_score(slower_off, median(slower_off) over alike, avg(slower_off) over alike) as oddity
    from distance
    window alike as (partition by distances, name)
)

select
    process_group.ranks[1] as rank,
    process_group.group_name,
    to_json(process_group.ranks)::varchar as group_ranks,
    process_group.group_size,
    process_group.name,
    process_group.collective_count,
    process_group.bytes,
    process_group.transfer_ns,
    process_group.bytes::double / nullif(process_group.transfer_ns, 0)
    * bus_factor(process_group.name, process_group.group_size) as bus_gb_per_s,
    coalesce(judged.alike_count, 0) as alike_count,
    coalesce(judged.compared_ns, 0) as compared_ns,
    coalesce(judged.usual_ns, 0) as usual_ns,
    judged.slower,
    judged.oddity,
    coalesce(judged.slower > 1 and judged.oddity > most_usual_z_score(), false) as is_slow,
    process_group.example_event_id
from process_group
left join judged
    on
        process_group.group_name is not distinct from judged.group_name
        and process_group.ranks = judged.ranks
        and process_group.name = judged.name
where $rank is null or list_contains(process_group.ranks, $rank)
order by
    judged.compared_ns - judged.usual_ns desc nulls last,
    process_group.transfer_ns desc,
    process_group.ranks,
    process_group.group_name,
    process_group.name
