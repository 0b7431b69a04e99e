-- One row per group, with its name.
--
-- A short name's share is the sum of the usual shares (`grouped_node`) of its nodes in the group. The group gets the
-- earliest short name with at least 80 % of the largest share. The margin keeps the name stable, since the name with
-- the largest share varies between runs.
--
-- :reads group_member, grouped_node, shown_node
-- :column key UBIGINT           the group
-- :column rank RANK
-- :column step STEP             -1 outside every step
-- :column phase PHASE           of the group
-- :column short_name VARCHAR    short name given to the group
-- :column member_count BIGINT   nodes in the group
-- :column name_count BIGINT     number of different short names in the group
-- :column name_pct DOUBLE       share of the group's time in nodes with its short name; NULL if the group takes no time
-- :column long_ns BIGINT        time of all nodes of the group
-- :column order_ns BIGINT       start of the first node

-- one row per group and short name in the group
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

largest_share as (
    select
        key,
        max(share_pct) as share_pct
    from named_time
    group by key
),

-- One row per name in a group. The first name becomes the name of the group.
candidate as (
    select
        named_time.*,
        row_number() over (
            partition by named_time.key
            order by
                named_time.share_pct < 0.8 * largest_share.share_pct,
                named_time.order_ns,
                named_time.short_name
        ) as place
    from named_time
    inner join largest_share on named_time.key = largest_share.key
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
