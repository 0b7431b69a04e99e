-- The trace as a tree that people can read: step → phase → module → op → kernel, with what is too small to see grouped.
--
-- A node is a step, a phase, a call of a module, an annotation, an op, a runtime call or a piece of GPU work. A call
-- that launches one piece of GPU work and that work are one node. Its parent is what encloses it on its thread; what
-- runs on another thread than the training loop belongs to the phase that it is labelled with. GPU work belongs to the
-- node that launched it and to all around that, whenever it runs. Python frames are left out: their time is a gap.
--
-- Noise is reduced in four steps. A node that can be opened is replaced by its children where it adds nothing: an only
-- child, or one that takes more than `dominant_pct` of its parent beside others that cannot be opened; modules only
-- where there are modules in them. Neighbours of one thread with the same name, or each under `tiny_pct` of their
-- parent, make a group, unless that would be all that the parent shows; neighbours of one name count as one then.
-- Modules, and what takes more than `dominant_pct` of its parent in this step, are never too small. Where a node still
-- has more than `max_children` children on a thread, neighbours are bundled evenly. Nodes below `max_depth` are left
-- out, and so are the smallest where a step has more than `max_nodes`; the time of what is left out stays in the nodes
-- around it.
--
-- So that noise in the times does not change the tree, as little as can be depends on them: only what is tiny and what
-- is dominant. A share is that of the shortest times which a place, known by the names around it, has in five evenly
-- chosen steps. From half to twice `tiny_pct` a node goes with its family, by the median share of that: what has its
-- name in parents of that name, modules of one class having one name. Whether a child adds nothing is decided once for
-- each pair of names, too. Bundles are made by order and not by time.
--
-- :param rank BIGINT = NULL              only this rank
-- :param step BIGINT = NULL              only this step
-- :param tiny_pct DOUBLE >= 0 = 5        neighbours under this share of their parent are grouped
-- :param dominant_pct DOUBLE >= 0 = 75   a child above this share is replaced by its children; 100: none is
-- :param max_children BIGINT >= 4 = 40   from so many on, neighbours are bundled
-- :param max_depth BIGINT >= 0 = 12      levels below the step
-- :param max_nodes BIGINT >= 0 = 20000   nodes per step
-- :reads event, gpu_gap, label, launch, module_slice, name_info, nesting, phase_span, step
-- :column rank BIGINT                 process rank
-- :column step BIGINT                 the step; NULL for what lies outside every step
-- :column node_id BIGINT              number of the node, parents first
-- :column parent_id BIGINT            the node around it; NULL for a step
-- :column depth BIGINT                number of nodes around it
-- :column kind VARCHAR                step, phase, module, annotation, op, call, kernel, copy, memset, or group
-- :column name VARCHAR                 full name; NULL for groups
-- :column short_name VARCHAR           name for people; of groups the first with most of the usual time,
--                                     where a fifth less is as much
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
with recursive placed_step as (
    select
        rank,
        step,
        start_ns,
        end_ns,
        row_number() over (partition by rank order by start_ns) - 1 as number,
        count(*) over (partition by rank) as count,
        number in (count // 10, 3 * count // 10, count // 2, 7 * count // 10, 9 * count // 10) as is_typical
    from step
    where $rank is null or rank = $rank
),

known_step as (
    select *
    from placed_step
    where is_typical or $step is null or step = $step
),

main_phase as (
    select
        row_number() over (order by phase_span.rank, phase_span.start_ns) as home_id,
        phase_span.rank,
        known_step.step,
        phase_span.phase,
        phase_span.track_id,
        phase_span.start_ns,
        least(phase_span.end_ns, known_step.end_ns) as end_ns,
        phase_span.event_id
    from phase_span
    asof inner join known_step
        on phase_span.rank = known_step.rank and phase_span.start_ns >= known_step.start_ns
    where phase_span.is_main and phase_span.start_ns < known_step.end_ns
),

cpu_event as (
    select
        event.rank,
        coalesce(label.step, -1) as step,
        coalesce(label.phase, 'outside_steps') as phase,
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns,
        case event.category when 'user_annotation' then 'annotation' when 'cpu_op' then 'op' else 'call' end as kind,
        event.name,
        coalesce(name_info.short_name, event.name) as short_name,
        event.event_id,
        label.module_id,
        label.pass
    from nesting
    inner join event on nesting.rank = event.rank and nesting.event_id = event.event_id
    inner join label on nesting.rank = label.rank and nesting.event_id = label.event_id
    left join name_info
        on (event.rank, event.category, event.name) = (name_info.rank, name_info.category, name_info.name)
    left join step as marked on nesting.rank = marked.rank and nesting.event_id = marked.event_id
    where
        event.category in ('cpu_op', 'user_annotation', 'cuda_runtime', 'cuda_driver')
        and marked.event_id is null
        and ($rank is null or nesting.rank = $rank)
        and ($step is null or (label.rank, label.step) in (select (rank, step) from known_step))
),

gpu_event as (
    select
        launch.rank,
        coalesce(label.step, -1) as step,
        coalesce(label.phase, label.bucket) as phase,
        event.track_id,
        event.start_ns,
        event.end_ns,
        event.dur_ns,
        launch.busy_ns,
        coalesce(gpu_gap.end_ns - gpu_gap.start_ns, 0) as idle_ns,
        case event.category when 'kernel' then 'kernel' when 'gpu_memcpy' then 'copy' else 'memset' end as kind,
        event.name,
        coalesce(name_info.short_name, event.name) as short_name,
        event.event_id,
        launch.runtime_id,
        launch.op_id,
        launch.kernel_count,
        label.module_id,
        label.pass
    from launch
    inner join event on launch.rank = event.rank and launch.event_id = event.event_id
    inner join label on launch.rank = label.rank and launch.event_id = label.event_id
    left join name_info
        on (event.rank, event.category, event.name) = (name_info.rank, name_info.category, name_info.name)
    left join gpu_gap on launch.rank = gpu_gap.rank and launch.event_id = gpu_gap.next_id
    where
        ($rank is null or launch.rank = $rank)
        and ($step is null or (label.rank, label.step) in (select (rank, step) from known_step))
),

-- --- slices of threads, each at home in one phase of its step

loose_slice as (
    select
        rank,
        step,
        phase,
        track_id,
        start_ns,
        end_ns,
        kind,
        name,
        short_name,
        event_id,
        module_id,
        pass,
        short_name as type,
        1000 as layer
    from cpu_event
    union all
    select
        rank,
        step,
        phase,
        track_id,
        start_ns,
        end_ns,
        'module',
        name,
        -- In a container that numbers its modules; a number alone says nothing.
        case when regexp_full_match(name, '\d+') then '[' || name || ']' || coalesce(' ' || type, '') else name end,
        event_id,
        module_id,
        pass,
        type,
        depth
    from module_slice
    where ($rank is null or rank = $rank) and (rank, step) in (select (rank, step) from known_step)
),

homed as (
    select
        loose_slice.*,
        main_phase.home_id,
        main_phase.start_ns as home_ns,
        main_phase.track_id as home_track_id,
        main_phase.end_ns as home_end_ns,
        main_phase.event_id as home_event_id
    from loose_slice
    asof left join main_phase
        on
            loose_slice.rank = main_phase.rank
            and loose_slice.step = main_phase.step
            and loose_slice.phase = main_phase.phase
            and loose_slice.start_ns >= main_phase.start_ns
),

-- What runs on other threads than the loop, and does not belong to one of its phases, is at home in a phase beside it.
stray as (
    select
        (select count(*) from main_phase) + row_number() over (order by rank, step, phase) as home_id,
        rank,
        step,
        phase
    from (
        select
            rank,
            step,
            phase
        from homed
        where home_id is null
        union
        select
            gpu_event.rank,
            gpu_event.step,
            gpu_event.phase
        from gpu_event
        left join homed
            on gpu_event.rank = homed.rank and coalesce(gpu_event.runtime_id, gpu_event.op_id) = homed.event_id
        where homed.event_id is null
    ) as homeless
),

phase_node as (
    select
        home_id,
        rank,
        step,
        phase,
        start_ns as order_ns,
        track_id,
        start_ns,
        end_ns,
        event_id
    from main_phase
    union all
    select
        home_id,
        rank,
        step,
        phase,
        -1,
        null::bigint,
        null::bigint,
        null::bigint,
        null::bigint
    from stray
),

step_node as (
    select
        row_number() over (order by rank, step) as step_id,
        rank,
        step
    from (select distinct rank, step from phase_node) as distinct_step
),

-- An annotation that lasts longer than its phase tells nothing about it, and one that is the phase nothing new.
-- The slices of a thread are numbered so that those inside a slice follow it.
slice as (
    select
        homed.rank,
        homed.step,
        homed.phase,
        coalesce(homed.home_id, stray.home_id) as home_id,
        homed.track_id,
        homed.start_ns,
        homed.end_ns,
        homed.kind,
        homed.name,
        homed.short_name,
        homed.event_id,
        homed.module_id,
        homed.pass,
        homed.type,
        row_number() over (
            order by
                coalesce(homed.home_id, stray.home_id),
                homed.track_id,
                homed.start_ns,
                homed.end_ns desc,
                homed.layer,
                homed.event_id,
                homed.module_id
        ) as slice_id
    from homed
    left join stray on homed.rank = stray.rank and homed.step = stray.step and homed.phase = stray.phase
    where
        not coalesce(
            homed.kind = 'annotation'
            and homed.track_id = homed.home_track_id
            and (
                homed.end_ns > homed.home_end_ns
                or (
                    homed.event_id = homed.home_event_id
                    and 100.0 * (homed.end_ns - homed.start_ns) >= $dominant_pct * (homed.home_end_ns - homed.home_ns)
                )
            ),
            false
        )
),

edge as (
    select
        slice_id,
        home_id,
        track_id,
        start_ns as at_ns,
        slice_id as in_order,
        (end_ns > start_ns)::integer as change
    from slice
    union all
    select
        -1,
        home_id,
        track_id,
        end_ns,
        -1,
        -1
    from slice
    where end_ns > start_ns
),

deep as (
    select
        slice_id,
        home_id,
        track_id,
        at_ns as start_ns,
        change,
        sum(change) over (
            partition by home_id, track_id order by at_ns, in_order rows unbounded preceding
        ) - change as depth
    from edge
),

container as (
    select
        slice_id,
        home_id,
        track_id,
        start_ns,
        depth + 1 as inner_depth
    from deep
    where slice_id > 0 and change = 1
),

nested as (
    select
        inside.slice_id,
        inside.home_id,
        inside.track_id,
        inside.depth,
        container.slice_id as around_id
    from deep as inside
    asof left join container
        on
            inside.home_id = container.home_id
            and inside.track_id = container.track_id
            and inside.depth = container.inner_depth
            and inside.start_ns >= container.start_ns
    where inside.slice_id > 0
),

-- Only damage nests so deep. What is left out there has its GPU work in the last slice around it that is not.
bottom as (
    select *
    from container
    where inner_depth = 101
),

standing as (
    select
        slice_id,
        slice_id as standing_id
    from nested
    where depth <= 100
    union all
    select
        nested.slice_id,
        bottom.slice_id as standing_id
    from (
        select
            nested.*,
            deep.start_ns
        from nested
        inner join deep on nested.slice_id = deep.slice_id
        where nested.depth > 100
    ) as nested
    asof inner join bottom
        on
            nested.home_id = bottom.home_id
            and nested.track_id = bottom.track_id
            and nested.start_ns >= bottom.start_ns
),

slice_of_event as (
    select
        slice.rank,
        slice.event_id,
        slice.slice_id,
        standing.standing_id
    from slice
    inner join standing on slice.slice_id = standing.slice_id
    where slice.event_id is not null
),

-- --- the raw tree: steps, phases, slices, and GPU work that is not one with its call

launched as (
    select
        gpu_event.*,
        coalesce(call.standing_id, op.standing_id) as launcher_id,
        coalesce(gpu_event.kernel_count = 1 and call.slice_id = call.standing_id, false) as is_one,
        row_number() over (order by gpu_event.rank, gpu_event.event_id) as gpu_id
    from gpu_event
    left join slice_of_event as call on gpu_event.rank = call.rank and gpu_event.runtime_id = call.event_id
    left join slice_of_event as op on gpu_event.rank = op.rank and gpu_event.op_id = op.event_id
),

-- Nodes have keys of four kinds; those of groups have the highest bit set, those of bundles the next one, too.
-- Names are compared by a number, until the nodes shown get theirs again:
-- `name_key`, and `type_key`, which all modules of a class share.
tree as (
    select
        (4 * step_id)::ubigint as key,
        null::ubigint as parent_key,
        0 as level,
        rank,
        step,
        'step' as kind,
        case when step = -1 then 'outside steps' else 'step ' || step end as name,
        'step' as type,
        -1 as order_ns,
        null::bigint as cpu_ns,
        null::bigint as track_id
    from step_node
    union all
    select
        (4 * phase_node.home_id + 1)::ubigint,
        (4 * step_node.step_id)::ubigint,
        1,
        phase_node.rank,
        phase_node.step,
        'phase',
        phase_node.phase as name,
        phase_node.phase as type,
        phase_node.order_ns,
        null,
        null
    from phase_node
    inner join step_node on phase_node.rank = step_node.rank and phase_node.step = step_node.step
    union all
    select
        (4 * slice.slice_id + 2)::ubigint,
        coalesce(4 * nested.around_id + 2, 4 * slice.home_id + 1)::ubigint,
        nested.depth + 2,
        slice.rank,
        slice.step,
        coalesce(launched.kind, slice.kind),
        coalesce(launched.short_name, slice.short_name),
        coalesce(launched.short_name, slice.type),
        slice.start_ns,
        slice.end_ns - slice.start_ns,
        slice.track_id
    from slice
    inner join nested on slice.slice_id = nested.slice_id
    left join launched on slice.slice_id = launched.launcher_id and launched.is_one
    where nested.depth <= 100
    union all
    select
        (4 * launched.gpu_id + 3)::ubigint,
        coalesce(4 * launched.launcher_id + 2, 4 * stray.home_id + 1)::ubigint,
        coalesce(nested.depth + 3, 2),
        launched.rank,
        launched.step,
        launched.kind,
        launched.short_name as name,
        launched.short_name as type,
        launched.start_ns,
        0,
        launched.track_id
    from launched
    left join nested on launched.launcher_id = nested.slice_id
    left join stray on launched.rank = stray.rank and launched.step = stray.step and launched.phase = stray.phase
    where not launched.is_one
),

-- --- the time of each node on each track

gpu_up as (
    select
        case when is_one then 4 * launcher_id + 2 else 4 * gpu_id + 3 end::ubigint as key,
        track_id,
        start_ns,
        end_ns,
        dur_ns as time_ns,
        1::bigint as gpu_event_count,
        busy_ns,
        idle_ns
    from launched
    union all
    select
        tree.parent_key,
        gpu_up.track_id,
        min(gpu_up.start_ns),
        max(gpu_up.end_ns),
        sum(gpu_up.time_ns)::bigint,
        sum(gpu_up.gpu_event_count)::bigint,
        sum(gpu_up.busy_ns)::bigint,
        sum(gpu_up.idle_ns)::bigint
    from gpu_up
    inner join tree on gpu_up.key = tree.key
    where tree.parent_key is not null
    group by tree.parent_key, gpu_up.track_id
),

other_thread as (
    select
        slice.home_id,
        slice.track_id,
        min(slice.start_ns) as start_ns,
        max(slice.end_ns) as end_ns,
        sum(slice.end_ns - slice.start_ns)::bigint as time_ns
    from nested
    inner join slice on nested.slice_id = slice.slice_id
    where nested.around_id is null
    group by slice.home_id, slice.track_id
),

phase_thread as (
    select
        home_id,
        track_id,
        start_ns,
        end_ns,
        end_ns - start_ns as time_ns
    from phase_node
    where track_id is not null
    union all
    select
        other_thread.home_id,
        other_thread.track_id,
        other_thread.start_ns,
        other_thread.end_ns,
        other_thread.time_ns
    from other_thread
    left join phase_node on other_thread.home_id = phase_node.home_id and other_thread.track_id = phase_node.track_id
    where phase_node.home_id is null
),

gpu_side as (
    select
        key,
        track_id,
        min(start_ns) as start_ns,
        max(end_ns) as end_ns,
        sum(time_ns)::bigint as time_ns,
        sum(gpu_event_count)::bigint as gpu_event_count,
        sum(busy_ns)::bigint as busy_ns,
        sum(idle_ns)::bigint as idle_ns
    from gpu_up
    group by key, track_id
),

-- The threads of phases and steps; all other nodes run on one.
thread_side as (
    select
        (4 * home_id + 1)::ubigint as key,
        track_id,
        start_ns,
        end_ns,
        time_ns
    from phase_thread
    union all
    select
        (4 * step_node.step_id)::ubigint,
        phase_thread.track_id,
        min(phase_thread.start_ns),
        max(phase_thread.end_ns),
        sum(phase_thread.time_ns)::bigint
    from phase_thread
    inner join phase_node on phase_thread.home_id = phase_node.home_id
    inner join step_node on phase_node.rank = step_node.rank and phase_node.step = step_node.step
    group by step_node.step_id, phase_thread.track_id
),

gpu_time as (
    select
        key,
        sum(time_ns) as gpu_ns,
        arg_max(track_id, (time_ns, -track_id)) as track_id
    from gpu_side
    group by key
),

thread_time as (
    select
        key,
        max(time_ns) as cpu_ns,
        arg_max(track_id, (time_ns, -track_id)) as track_id
    from thread_side
    group by key
),

weighed as (
    select
        tree.key,
        tree.parent_key,
        tree.level,
        tree.rank,
        tree.step,
        tree.kind,
        hash(tree.kind, tree.name) as name_key,
        hash(tree.kind, tree.type) as type_key,
        tree.order_ns,
        coalesce(gpu_time.gpu_ns, 0)::bigint as gpu_ns,
        coalesce(tree.cpu_ns, thread_time.cpu_ns, 0) as cpu_ns,
        coalesce(tree.track_id, thread_time.track_id, gpu_time.track_id) as track_id
    from tree
    left join gpu_time on tree.key = gpu_time.key
    left join thread_time on tree.key = thread_time.key
),

-- Which of the nodes of one name it is in its parent.
in_family as (
    select
        key,
        parent_key,
        rank,
        step,
        name_key,
        row_number() over (order by parent_key, name_key, order_ns, key) as number
    from weighed
),

eldest as (
    select
        parent_key,
        name_key,
        min(number) as number
    from in_family
    group by parent_key, name_key
),

counted as (
    select
        in_family.key,
        in_family.parent_key,
        in_family.rank,
        in_family.step,
        in_family.name_key,
        in_family.number - eldest.number as namesake
    from in_family
    inner join eldest
        on in_family.name_key = eldest.name_key and in_family.parent_key is not distinct from eldest.parent_key
),

-- --- a child that adds nothing is replaced by what is in it

inside as (
    select
        parent_key as key,
        bool_or(kind in ('op', 'annotation', 'module')) as has_op,
        bool_or(kind in ('module', 'annotation')) as has_module
    from weighed
    group by parent_key
),

family as (
    select
        child.key,
        child.rank,
        child.step,
        child.kind,
        hash(child.rank, child.step = -1, parent.type_key, child.type_key) as pair_key,
        child.parent_key,
        100.0 * child.cpu_ns / nullif(parent.cpu_ns, 0) as cpu_pct,
        100.0 * child.gpu_ns / nullif(parent.gpu_ns, 0) as gpu_pct,
        counted.namesake,
        coalesce(inside.has_op, false) as has_op,
        case when child.kind = 'module' then coalesce(inside.has_module, false) else has_op end as is_openable
    from weighed as child
    inner join weighed as parent on child.parent_key = parent.key
    inner join counted on child.key = counted.key
    left join inside on child.key = inside.key
),

brood as (
    select
        parent_key,
        count(*) as child_count,
        sum(has_op::integer) as openable_count
    from family
    group by parent_key
),

typical as (
    select
        rank,
        step
    from known_step
    where is_typical
),

-- All pairs of one parent and child are treated alike: as most of them are.
futile_pair as (
    select family.pair_key
    from family
    inner join brood on family.parent_key = brood.parent_key
    where family.step = -1 or (family.rank, family.step) in (select (rank, step) from typical)
    group by family.pair_key
    having
        max(family.namesake) = 0
        and $dominant_pct < 100
        and (
            avg((brood.child_count = 1)::integer) > 0.5
            or (
                avg((brood.openable_count > 1)::integer) < 0.5
                and avg(family.cpu_pct) > $dominant_pct
                and coalesce(avg(family.gpu_pct), 100) >= $dominant_pct
            )
        )
),

replaced as (
    select family.key
    from family
    inner join futile_pair on family.pair_key = futile_pair.pair_key
    where family.is_openable and family.kind in ('module', 'op', 'annotation')
),

kept as (
    select
        key,
        null::ubigint as parent_key,
        key as inner_parent,
        0 as depth,
        true as is_kept,
        hash(rank, step = -1) as place
    from counted
    where parent_key is null
    union all
    select
        counted.key,
        kept.inner_parent,
        case when replaced.key is null then counted.key else kept.inner_parent end,
        kept.depth + (replaced.key is null)::integer,
        replaced.key is null,
        hash(kept.place, counted.name_key, counted.namesake)
    from kept
    inner join counted on kept.key = counted.parent_key
    left join replaced on counted.key = replaced.key
    where kept.depth < $max_depth or not kept.is_kept
),

node_of_any_step as (
    select
        weighed.*,
        kept.parent_key as container_key,
        kept.place,
        greatest(weighed.cpu_ns, weighed.gpu_ns) as long_ns
    from weighed
    inner join kept on weighed.key = kept.key
    where kept.is_kept and kept.depth <= $max_depth
),

described as (
    select
        (4 * slice.slice_id + 2)::ubigint as key,
        coalesce(launched.name, slice.name) as name,
        coalesce(launched.short_name, slice.short_name) as short_name,
        slice.phase,
        slice.module_id,
        slice.pass,
        slice.event_id,
        launched.event_id as gpu_event_id
    from slice
    left join launched on slice.slice_id = launched.launcher_id and launched.is_one
    where $step is null or slice.step = $step
    union all
    select
        (4 * gpu_id + 3)::ubigint,
        name,
        short_name,
        phase,
        module_id,
        pass,
        null,
        event_id
    from launched
    where not is_one and ($step is null or step = $step)
    union all
    select
        (4 * home_id + 1)::ubigint,
        phase as name,
        phase as short_name,
        phase,
        null,
        null,
        event_id,
        null
    from phase_node
    union all
    select
        key,
        name,
        name as short_name,
        null,
        null,
        null,
        null,
        null
    from tree
    where kind = 'step'
),

node as (
    select
        any_step.*,
        described.name,
        described.short_name,
        described.phase,
        described.module_id,
        described.pass,
        described.event_id,
        described.gpu_event_id
    from node_of_any_step as any_step
    inner join described on any_step.key = described.key
    where $step is null or any_step.step = $step
),

-- --- neighbours of one name are a unit; neighbouring units that are tiny make a run

-- Windows without partitions, here and below: there are many containers, and most have few nodes.
neighbour as (
    select
        key,
        container_key,
        track_id,
        place,
        type_key,
        kind,
        long_ns,
        row_number() over in_order as position,
        coalesce(
            container_key = lag(container_key) over in_order
            and name_key = lag(name_key) over in_order
            and track_id is not distinct from lag(track_id) over in_order,
            false
        ) as is_namesake
    from node_of_any_step
    where container_key is not null
    window in_order as (order by container_key, track_id, order_ns, level, key)
),

united as (
    select
        *,
        sum((not is_namesake)::integer) over (order by position rows unbounded preceding) as unit
    from neighbour
),

summed_unit as (
    select
        unit,
        any_value(container_key) as container_key,
        any_value(track_id) as track_id,
        any_value(type_key) as type_key,
        any_value(kind) as kind,
        max(place) filter (where not is_namesake) as place,
        count(*) as member_count,
        sum(long_ns) as long_ns
    from united
    group by unit
),

unit as (
    select
        summed_unit.*,
        container.rank,
        container.step,
        container.kind as container_kind,
        container.long_ns as container_ns,
        hash(container.rank, container.step = -1, container.type_key, summed_unit.type_key) as family_key
    from summed_unit
    inner join node_of_any_step as container on summed_unit.container_key = container.key
),

-- What disturbs a measurement makes it longer: the shortest times of a place are those that come again.
usual_of_place as (
    select
        place,
        any_value(family_key) as family_key,
        100.0 * min(long_ns) / nullif(min(container_ns), 0) as share_pct
    from unit
    where step = -1 or (rank, step) in (select (rank, step) from typical)
    group by place
),

usual_of_family as (
    select
        family_key,
        median(share_pct) as share_pct
    from usual_of_place
    group by family_key
),

weighed_unit as (
    select
        unit.unit,
        unit.container_key,
        unit.track_id,
        unit.member_count,
        unit.container_kind,
        coalesce(usual_of_place.share_pct, 100.0 * unit.long_ns / nullif(unit.container_ns, 0), 0) as place_pct,
        coalesce(usual_of_family.share_pct, place_pct) as family_pct,
        unit.container_kind != 'step'
        and unit.kind != 'module'
        and 100.0 * unit.long_ns <= $dominant_pct * unit.container_ns
        and place_pct < 2 * $tiny_pct
        and (place_pct < $tiny_pct / 2 or family_pct < $tiny_pct) as is_tiny
    from unit
    left join usual_of_place on unit.place = usual_of_place.place
    left join usual_of_family on unit.family_key = usual_of_family.family_key
    where $step is null or unit.step = $step
),

linked as (
    select
        *,
        coalesce(
            is_tiny
            and lag(is_tiny) over in_order
            and container_key = lag(container_key) over in_order
            and track_id is not distinct from lag(track_id) over in_order,
            false
        ) as is_linked
    from weighed_unit
    window in_order as (order by unit)
),

unit_run as (
    select
        *,
        sum((not is_linked)::integer) over (order by unit rows unbounded preceding) as run
    from linked
),

crew as (
    select
        container_key,
        track_id,
        count(*) as unit_count
    from weighed_unit
    group by container_key, track_id
),

-- A group of all there is would be one more click to the same picture.
run_size as (
    select
        unit_run.run,
        unit_run.container_kind != 'step' as can_group,
        can_group and count(*) > 1 and count(*) < any_value(crew.unit_count) as is_group,
        can_group and any_value(crew.unit_count) > 1 and (
            not is_group or sum(unit_run.member_count) > $max_children
        ) as has_units
    from unit_run
    inner join crew
        on unit_run.container_key = crew.container_key and unit_run.track_id is not distinct from crew.track_id
    group by unit_run.run, unit_run.container_kind
),

share as (
    select
        node.*,
        united.position,
        unit_run.place_pct / unit_run.member_count as share_pct,
        case when run_size.is_group then 9223372036854775808::ubigint + unit_run.run::ubigint end as run_key,
        case
            when run_size.has_units and unit_run.member_count > 1
                then 11529215046068469760::ubigint + unit_run.unit::ubigint
        end as unit_key
    from node
    inner join united on node.key = united.key
    inner join unit_run on united.unit = unit_run.unit
    inner join run_size on unit_run.run = run_size.run
),

-- --- what a container holds: nodes, units and runs; then what those hold. Where that is too much, bundle it evenly

content as (
    select
        coalesce(run_key, unit_key, key) as key,
        container_key,
        track_id,
        min(position) as position
    from share
    group by all
    union all
    select
        coalesce(unit_key, key),
        run_key,
        track_id,
        min(position)
    from share
    where run_key is not null
    group by all
    union all
    select
        key,
        unit_key,
        track_id,
        position
    from share
    where unit_key is not null
),

crowd as (
    select
        container_key,
        track_id,
        count(*) as size
    from content
    group by container_key, track_id
    having count(*) > $max_children
),

bundled as (
    select
        content.key,
        content.track_id,
        null::ubigint as outer_key,
        content.container_key as bundle_key,
        crowd.size,
        row_number() over (
            partition by content.container_key, content.track_id order by content.position
        ) - 1 as number
    from content
    inner join crowd
        on content.container_key = crowd.container_key and content.track_id is not distinct from crowd.track_id
    union all
    select
        key,
        track_id,
        bundle_key,
        hash(bundle_key, track_id, part) | 13835058055282163712::ubigint,
        ((part + 1) * size + parts - 1) // parts - (part * size + parts - 1) // parts,
        number - (part * size + parts - 1) // parts
    from (
        select
            *,
            least($max_children // 2, ceil(4.0 * size / $max_children))::bigint as parts,
            number * parts // size as part
        from bundled
        where size > $max_children
    ) as crowded
),

link as (
    select
        content.key,
        content.container_key as parent_key
    from content
    anti join bundled on content.key = bundled.key
    union all
    select
        key,
        bundle_key
    from bundled
    where size <= $max_children
    union all
    select distinct
        bundle_key,
        outer_key
    from bundled
    where outer_key is not null
),

-- The real nodes of each group, found upwards from the nodes.
held as (
    select
        node.key as node_key,
        link.parent_key as group_key
    from node
    inner join link on node.key = link.key
    where link.parent_key >= 9223372036854775808
    union all
    select
        held.node_key,
        link.parent_key
    from held
    inner join link on held.group_key = link.key
    where link.parent_key >= 9223372036854775808
),

named_time as (
    select
        held.group_key as key,
        share.short_name,
        count(*) as member_count,
        sum(share.long_ns) as long_ns,
        coalesce(sum(share.share_pct), 0) as share_pct,
        min(share.order_ns) as order_ns,
        min(share.rank) as rank,
        min(share.step) as step,
        min(share.phase) as phase
    from held
    inner join share on held.node_key = share.key
    group by held.group_key, share.short_name
),

most_time as (
    select
        key,
        max(share_pct) as share_pct
    from named_time
    group by key
),

-- Named after the first of those that take about as much, since which of them takes most is another in the next run.
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
),

group_node as (
    select
        key,
        any_value(short_name) filter (where place = 1) as short_name,
        sum(member_count)::bigint as member_count,
        count(*) as name_count,
        100.0 * sum(long_ns) filter (where place = 1) / nullif(sum(long_ns), 0) as name_pct,
        sum(long_ns) as long_ns,
        min(order_ns) as order_ns,
        min(rank) as rank,
        min(step) as step,
        min(phase) as phase
    from candidate
    group by key
),

every_node as (
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
    from node
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

side as (
    select
        key,
        'gpu' as device,
        track_id,
        start_ns,
        end_ns,
        time_ns,
        gpu_event_count,
        busy_ns,
        idle_ns
    from gpu_side
    union all
    select
        key,
        'cpu',
        track_id,
        start_ns,
        end_ns,
        time_ns,
        0,
        0,
        0
    from thread_side
    union all
    select
        key,
        'cpu',
        track_id,
        order_ns,
        order_ns + cpu_ns,
        cpu_ns,
        0,
        0,
        0
    from node
    where key % 4 = 2
),

every_side as (
    select * from side
    union all
    select
        held.group_key,
        side.device,
        side.track_id,
        min(side.start_ns),
        max(side.end_ns),
        sum(side.time_ns)::bigint,
        sum(side.gpu_event_count)::bigint,
        sum(side.busy_ns)::bigint,
        sum(side.idle_ns)::bigint
    from held
    inner join side on held.node_key = side.key
    group by held.group_key, side.device, side.track_id
),

-- --- from the top, so that a node stays only if its parent does

ranked as (
    select
        every_node.*,
        link.parent_key,
        row_number() over (
            partition by every_node.rank, every_node.step
            order by every_node.long_ns desc nulls first, every_node.order_ns, every_node.key
        ) as importance
    from every_node
    left join link on every_node.key = link.key
),

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
    every_side.device,
    every_side.track_id,
    every_side.start_ns,
    every_side.end_ns,
    every_side.time_ns,
    every_side.gpu_event_count,
    every_side.busy_ns,
    every_side.idle_ns
from numbered
left join numbered as parent
    on numbered.parent_key = parent.key
left join every_side on numbered.key = every_side.key
order by numbered.rank, numbered.node_id, every_side.device, every_side.track_id
