-- Speed of the collectives of each process group compared to similar groups, to find slow links.
--
-- Groups are similar if they have the same number of ranks at the same distances, and therefore the same reach over the
-- network: 0 to 7 and 8 to 15, but not 0, 8, 16, and so on. The compared time of a collective is its transfer, from the
-- start of the last rank to the end on the rank with the shortest transfer. Waiting for a late rank therefore makes no
-- group slow. `usual_ns` is the median time of at least three similar groups, for each type and size of message. A
-- group is slow if it takes longer than usual and is an outlier (`oddity` above 3.5, as in `ranks`); among few groups
-- this can happen by chance. Slow groups of different shapes with a common rank point at the links of this rank.
--
-- A group is not compared if the run lacks one of its ranks or the group size is unknown, since the missing rank may
-- have come last. Message sizes of all-to-all, gather and scatter differ between ranks and are ignored.
--
-- :param rank BIGINT = NULL            only groups with this rank
-- :param step BIGINT = NULL            only this step
-- :reads collective_match
-- :column rank RANK                    that is the lowest of the group in this run
-- :column group_name VARCHAR           process group; NULL if unknown
-- :column group_ranks VARCHAR          ranks of the group in this run, as a JSON list
-- :column group_size BIGINT            number of ranks in the group; NULL if unknown
-- :column name VARCHAR                 allreduce, allgather, …
-- :column collective_count BIGINT      number of collectives of this type in the group
-- :column bytes BIGINT                 sum of their message sizes; NULL if a size is unknown
-- :column transfer_ns BIGINT           sum of the transfer times
-- :column bus_gb_per_s DOUBLE          bandwidth, as in `collectives`; NULL if `bytes` or `group_size` is NULL
-- :column alike_count BIGINT           number of similar groups, including this group; 0 if not compared
-- :column compared_ns BIGINT           time of the messages shared by at least three similar groups, using the group's
--                                      median call of each kind of message, to ignore single slow calls
-- :column usual_ns BIGINT              time of the same messages at the median of the similar groups
-- :column slower DOUBLE                `compared_ns` divided by `usual_ns`; NULL without a comparison
-- :column oddity DOUBLE                modified z-score of `slower` among similar groups; NULL if all are equal
-- :column is_slow BOOLEAN              the group is an outlier and slower than usual
-- :column example_event_id BIGINT      collective with the longest transfer, on the lowest rank

-- one row per collective: its group, message and shortest transfer
with call as (
    select
        match_id,
        any_value(group_name) as group_name,
        any_value(name) as name,
        any_value(group_size) as group_size,
        max(bytes) as bytes,
        -- Clock errors can make a rank start last and end first, with no transfer time left.
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

-- one row per group and type of collective
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

-- One row per kind of message of a complete group: the median time of a call.
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

-- one row per group and type of collective: the compared and the usual time
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

group_score as (
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
    coalesce(group_score.alike_count, 0) as alike_count,
    coalesce(group_score.compared_ns, 0) as compared_ns,
    coalesce(group_score.usual_ns, 0) as usual_ns,
    group_score.slower,
    group_score.oddity,
    coalesce(group_score.slower > 1 and group_score.oddity > most_usual_z_score(), false) as is_slow,
    process_group.example_event_id
from process_group
left join group_score
    on
        process_group.group_name is not distinct from group_score.group_name
        and process_group.ranks = group_score.ranks
        and process_group.name = group_score.name
where $rank is null or list_contains(process_group.ranks, $rank)
order by
    group_score.compared_ns - group_score.usual_ns desc nulls last,
    process_group.transfer_ns desc,
    process_group.ranks,
    process_group.group_name,
    process_group.name
