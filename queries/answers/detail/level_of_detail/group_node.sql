-- A row is a group, and what it is named after.
--
-- That is the first of the names that take about as much of the usual time as the one with most: which of them takes
-- most varies between runs.
--
-- :reads group_member, grouped_node, shown_node
-- :column key UBIGINT           the group
-- :column rank BIGINT           process rank
-- :column step BIGINT           the step; -1 outside every step
-- :column phase VARCHAR         the phase
-- :column short_name VARCHAR    the name that it is named after
-- :column member_count BIGINT   nodes in it
-- :column name_count BIGINT     different short names in it
-- :column name_pct DOUBLE       share of its time that has its name; NULL if it takes none
-- :column long_ns BIGINT        what its nodes take together
-- :column order_ns BIGINT       start of the first
with named_time as (
    select
        group_member.group_key as key,
        shown_node.short_name,
        count(*) as member_count,
        sum(shown_node.long_ns) as long_ns,
        coalesce(sum(grouped_node.share_pct), 0) as share_pct,
        min(shown_node.order_ns) as order_ns,
        min(shown_node.rank) as rank,
        min(shown_node.step) as step,
        min(shown_node.phase) as phase
    from group_member
    inner join shown_node on group_member.node_key = shown_node.key
    inner join grouped_node on group_member.node_key = grouped_node.key
    group by group_member.group_key, shown_node.short_name
),

most_time as (
    select
        key,
        max(share_pct) as share_pct
    from named_time
    group by key
),

-- One row per name in a group; the group is named after the first.
candidate as (
    select
        named_time.*,
        row_number() over (
            partition by named_time.key
            order by
                named_time.share_pct < 0.8 * most_time.share_pct,
                named_time.order_ns,
                named_time.short_name
        ) as place
    from named_time
    inner join most_time on named_time.key = most_time.key
)

select
    key,
    min(rank) as rank,
    min(step) as step,
    min(phase) as phase,
    any_value(short_name) filter (where place = 1) as short_name,
    sum(member_count)::bigint as member_count,
    count(*) as name_count,
    100.0 * sum(long_ns) filter (where place = 1) / nullif(sum(long_ns), 0) as name_pct,
    sum(long_ns)::bigint as long_ns,
    min(order_ns) as order_ns
from candidate
group by key
