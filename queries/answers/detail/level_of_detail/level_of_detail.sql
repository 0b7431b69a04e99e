-- The trace as a tree that people can read: step → phase → module → op → kernel, with what is too small to see grouped.
--
-- A node is a step, a phase, a call of a module, an annotation, an op, a runtime call or a piece of GPU work. A call
-- that launches one piece of GPU work and that work are one node. Its parent is what encloses it on its thread; what
-- runs on another thread than the training loop belongs to the phase that it is labelled with. GPU work belongs to the
-- node that launched it and to all around that, whenever it runs. Python frames are left out: their time is a gap.
--
-- Noise is reduced in four ways. A node that can be opened is replaced by its children where it adds nothing: an only
-- child, or one that takes more than `dominant_pct` of its parent beside others that cannot be opened; modules only
-- where there are modules in them. Neighbours of one thread with the same name, or each under `tiny_pct` of their
-- parent, make a group, unless that would be all that the parent shows; neighbours of one name count as one then.
-- Modules, and what takes more than `dominant_pct` of its parent in this step, are never too small. Where a node still
-- has more than `max_children` children on a thread, neighbours are bundled evenly. Nodes below `max_depth` are left
-- out, and so are the smallest where a step has more than `max_nodes`; the time of what is left out stays in the nodes
-- around it.
--
-- Times vary from run to run, and the tree should not. So it depends on them only where it asks what is tiny and what
-- is dominant, and then on usual times: the share of a node is that of the shortest times which its place, known by the
-- names around it, has in five evenly chosen steps. Shares between half and twice `tiny_pct` are borderline: there the
-- median share of all nodes with the same name in parents of the same name decides, so that like nodes are treated
-- alike; all modules of a class have one name here. Whether a child adds nothing is decided once for each pair of
-- names, too. Bundles are made by order and not by time.
--
-- :param rank BIGINT = NULL              only this rank
-- :param step BIGINT = NULL              only this step
-- :param tiny_pct DOUBLE >= 0 = 5        neighbours under this share of their parent are grouped
-- :param dominant_pct DOUBLE >= 0 = 75   a child above this share is replaced by its children; 100: none is
-- :param max_children BIGINT >= 4 = 40   from so many on, neighbours are bundled
-- :param max_depth BIGINT >= 0 = 12      levels below the step
-- :param max_nodes BIGINT >= 0 = 20000   nodes per step
-- :reads group_link, group_node, node_side, shown_node
-- :column rank BIGINT                 process rank
-- :column step BIGINT                 the step; NULL for what lies outside every step
-- :column node_id BIGINT              number of the node, parents first
-- :column parent_id BIGINT            the node around it; NULL for a step
-- :column depth BIGINT                number of nodes around it
-- :column kind VARCHAR                step, phase, module, annotation, op, call, kernel, copy, memset, or group
-- :column name VARCHAR                full name; NULL for groups
-- :column short_name VARCHAR          name for people; a group has the first of those that take most of its usual time,
--                                     or up to a fifth less
-- :column phase VARCHAR               load_data, forward, …; NULL for steps; the bucket where no phase is known
-- :column module_id BIGINT            the module; NULL where none is known, and for groups
-- :column pass VARCHAR                forward, backward or recompute; NULL where no module is known, and for groups
-- :column member_count BIGINT         nodes in a group; 1 for others
-- :column name_count BIGINT           different short names in a group; 1 for others
-- :column name_pct DOUBLE             share of the group's time that has its name; 100 for others
-- :column event_id BIGINT             the event on the CPU; NULL for groups and nodes without one
-- :column gpu_event_id BIGINT         the GPU event, of kernels, copies and memsets; NULL for others
-- :column device VARCHAR              cpu or gpu: one row per node and thread or stream on which it takes time
-- :column track_id BIGINT             the thread or stream; NULL when unknown
-- :column start_ns BIGINT             start on this track
-- :column end_ns BIGINT               end on this track
-- :column time_ns BIGINT              on the CPU the time between both, for groups of their nodes; on the GPU the
--                                     duration of all its work
-- :column gpu_event_count BIGINT      kernels, copies and memsets; 0 on the CPU
-- :column busy_ns BIGINT              of the GPU time, in which no earlier work kept the device busy; 0 on the CPU
-- :column idle_ns BIGINT              time the device waited for this work; 0 on the CPU
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

-- One row per node or group; the steps and phases, and then what takes most, are the most important.
ranked as (
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

-- From the top, so that a node stays only if its parent does.
shown as (
    select
        key,
        null::ubigint as parent_key,
        0 as depth
    from ranked
    where kind = 'step'
    union all
    select
        ranked.key,
        shown.key as parent_key,
        shown.depth + 1
    from shown
    inner join ranked on shown.key = ranked.parent_key
    where ranked.importance <= $max_nodes
),

numbered as (
    select
        ranked.*,
        shown.depth,
        row_number() over (
            partition by ranked.rank
            order by ranked.step, shown.depth, ranked.order_ns, ranked.long_ns desc, ranked.key
        ) - 1 as node_id
    from shown
    inner join ranked on shown.key = ranked.key
)

select
    numbered.rank,
    nullif(numbered.step, -1) as step,
    numbered.node_id,
    parent.node_id as parent_id,
    numbered.depth::bigint as depth,
    numbered.kind,
    numbered.name,
    numbered.short_name,
    numbered.phase,
    numbered.module_id,
    numbered.pass,
    numbered.member_count::bigint as member_count,
    numbered.name_count::bigint as name_count,
    numbered.name_pct::double as name_pct,
    numbered.event_id,
    numbered.gpu_event_id,
    node_side.device,
    node_side.track_id,
    node_side.start_ns,
    node_side.end_ns,
    node_side.time_ns,
    node_side.gpu_event_count,
    node_side.busy_ns,
    node_side.idle_ns
from numbered
left join numbered as parent on numbered.parent_key = parent.key
left join node_side on numbered.key = node_side.key
order by numbered.rank, numbered.node_id, node_side.device, node_side.track_id
