-- The trace as a readable tree: step → phase → module → op → kernel, with small nodes grouped.
--
-- A node is a step, a phase, a module call, an annotation, an op, a runtime call or a piece of GPU work. A call with a
-- single GPU event shares a node with the GPU event. The parent of a node encloses the node on its thread. Activity on
-- other threads than the training loop belongs to the phase of its label. GPU work belongs to the launching node and
-- all its ancestors, whenever the work runs. Python frames are left out: their time is a gap.
--
-- Five parameters reduce noise:
--
--   dominant_pct  A node is replaced by its children if it adds no information: an only child, or a child above this
--                 share of its parent whose siblings cannot be opened. A module is replaced only if it has modules
--                 inside.
--   tiny_pct      Neighbours on one thread make a group if they have the same name, or if each is below this share of
--                 the parent. Neighbours of one name count as one node here. A group never has the whole content of a
--                 parent. Modules, and nodes above `dominant_pct` of their parent in this step, are never tiny.
--   max_children  If a node still has more children on a thread, neighbours are bundled evenly.
--   max_depth     Deeper nodes are left out.
--   max_nodes     If a step has more nodes, the smallest are left out. The time of omitted nodes stays in their
--                 ancestors.
--
-- Times vary from run to run, but the tree should not. Only the decisions on tiny and dominant nodes use times, and
-- these are usual times: a node's share comes from the shortest times of its place (the names around the node) in five
-- evenly spread steps. Shares between half and twice `tiny_pct` are borderline. For these, the median share of all
-- nodes with the same name in parents of the same name decides, so equal nodes are treated alike; modules of one class
-- share one name here. The decision to replace a child is also made once per pair of names. Bundles are made by order,
-- not by time.
--
-- :param rank BIGINT = NULL              only this rank
-- :param step BIGINT = NULL              only this step
-- :param tiny_pct DOUBLE >= 0 = 5        group neighbours below this share of their parent
-- :param dominant_pct DOUBLE >= 0 = 75   replace a child above this share by its children; 100: never
-- :param max_children BIGINT >= 4 = 40   bundle neighbours from this number of children on
-- :param max_depth BIGINT >= 0 = 12      maximum number of levels below the step
-- :param max_nodes BIGINT >= 0 = 20000   maximum number of nodes per step
-- :reads group_link, group_node, node_side, shown_node
-- :column rank RANK
-- :column step STEP                   NULL outside every step
-- :column node_id BIGINT              number of the node, parents first
-- :column parent_id BIGINT            parent node; NULL for a step
-- :column depth BIGINT                number of ancestors
-- :column kind VARCHAR                step, phase, module, annotation, op, call, kernel, copy, memset, or group
-- :column name VARCHAR                full name; NULL for groups
-- :column short_name VARCHAR          name for people; for a group, the first of the names with at least 80 % of the
--                                     largest usual time
-- :column phase VARCHAR               load_data, forward, …; NULL for steps; the bucket if the phase is unknown
-- :column module_id BIGINT            module; NULL if unknown, and for groups
-- :column pass VARCHAR                forward, backward or recompute; NULL if the module is unknown, and for groups
-- :column member_count BIGINT         nodes in a group; 1 for other nodes
-- :column name_count BIGINT           different short names in a group; 1 for other nodes
-- :column name_pct DOUBLE             share of the group's time in nodes with its short name; 100 for other nodes
-- :column event_id BIGINT             event on the CPU; NULL for groups and nodes without a CPU event
-- :column gpu_event_id BIGINT         GPU event of a kernel, copy or memset; NULL for other nodes
-- :column device VARCHAR              cpu or gpu: a node has one row per thread or stream
-- :column track_id BIGINT             thread or stream; NULL if unknown
-- :column start_ns BIGINT             start on this track
-- :column end_ns BIGINT               end on this track
-- :column time_ns BIGINT              on the CPU, end minus start (for groups, the sum over their nodes); on the GPU,
--                                     the duration of all work
-- :column gpu_event_count BIGINT      kernels, copies and memsets; 0 on the CPU
-- :column busy_ns BIGINT              GPU time in which no earlier work kept the device busy; 0 on the CPU
-- :column idle_ns BIGINT              time the device waited for this work; 0 on the CPU

-- one row per kept node and per group
with recursive every_node as (
    select
        key,
        kind,
        name,
        short_name,
        phase,
        module_id,
        pass,
        1 as member_count,
        1 as name_count,
        100.0 as name_pct,
        event_id,
        gpu_event_id,
        rank,
        step,
        order_ns,
        case when kind in ('step', 'phase') then null else long_ns end as long_ns
    from shown_node
    union all
    select
        key,
        'group',
        null,
        short_name,
        phase,
        null,
        null,
        member_count,
        name_count,
        coalesce(name_pct, 100.0),
        null,
        null,
        rank,
        step,
        order_ns,
        long_ns
    from group_node
),

-- One row per node or group, the most important first: steps and phases, then by time.
ranked_node as (
    select
        every_node.*,
        group_link.parent_key,
        row_number() over (
            partition by every_node.rank, every_node.step
            order by every_node.long_ns desc nulls first, every_node.order_ns, every_node.key
        ) as importance
    from every_node
    left join group_link on every_node.key = group_link.key
),

-- From the root down, so a node stays only if its parent stays.
visible_node as (
    select
        key,
        null::ubigint as parent_key,
        0 as depth
    from ranked_node
    where kind = 'step'
    union all
    select
        ranked_node.key,
        visible_node.key as parent_key,
        visible_node.depth + 1
    from visible_node
    inner join ranked_node on visible_node.key = ranked_node.parent_key
    where ranked_node.importance <= $max_nodes
),

-- one row per visible node or group, with its number
numbered_node as (
    select
        ranked_node.*,
        visible_node.depth,
        row_number() over (
            partition by ranked_node.rank
            order by
                ranked_node.step, visible_node.depth, ranked_node.order_ns, ranked_node.long_ns desc, ranked_node.key
        ) - 1 as node_id
    from visible_node
    inner join ranked_node on visible_node.key = ranked_node.key
)

select
    numbered_node.rank,
    nullif(numbered_node.step, -1) as step,
    numbered_node.node_id,
    parent.node_id as parent_id,
    numbered_node.depth::bigint as depth,
    numbered_node.kind,
    numbered_node.name,
    numbered_node.short_name,
    numbered_node.phase,
    numbered_node.module_id,
    numbered_node.pass,
    numbered_node.member_count::bigint as member_count,
    numbered_node.name_count::bigint as name_count,
    numbered_node.name_pct::double as name_pct,
    numbered_node.event_id,
    numbered_node.gpu_event_id,
    node_side.device,
    node_side.track_id,
    node_side.start_ns,
    node_side.end_ns,
    node_side.time_ns,
    node_side.gpu_event_count,
    node_side.busy_ns,
    node_side.idle_ns
from numbered_node
left join numbered_node as parent on numbered_node.parent_key = parent.key
left join node_side on numbered_node.key = node_side.key
order by numbered_node.rank, numbered_node.node_id, node_side.device, node_side.track_id
