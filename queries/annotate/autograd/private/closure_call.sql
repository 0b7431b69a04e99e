-- Calls of the closure passed to `optimizer.step(closure)`: the parts of an optimizer that run the program.
--
-- Everything inside an optimizer's annotation or frame belongs to the optimizer, except closure calls. Evidence of a
-- call: autograd nodes inside the optimizer whose forward ops are also inside; without gradients, a module's frame or a
-- loss. A call ends with the last evidence. A call begins at the optimizer's start, or after the last in-place update
-- before the evidence. An optimizer changes the weights between two calls (LBFGS, SAM); code that accumulates the
-- gradients of several batches does not.
--
-- An in-place update during forward is not the optimizer's. Updates during forward follow a layer or an op with a
-- backward node, or count batches right before a batch norm. A call therefore contains no start or end of an optimizer,
-- except inside forward or backward. `is_again` is true for all calls after the first in one run of the optimizer.
--
-- :reads cpu_span, nesting, name_class, node, event
-- :only_with name_class where strong_phase = 'optimizer'
-- :column track_id BIGINT   thread
-- :column start_ns BIGINT   the last border before the call: the start or end of an optimizer's event, or the end of an
--                           update
-- :column end_ns BIGINT     end of the last forward, loss or backward in the call
-- :column is_again BOOLEAN  the same run of the optimizer called the closure before
with optimizer as materialized (
    -- Events of an optimizer, and whether each is outermost.
    select
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns,
        is_outermost(nesting.start_ns, nesting.end_ns, nesting.track_id, -nesting.end_ns) as is_outermost
    from cpu_span
    inner join name_class on cpu_span.class_id = name_class.class_id
    inner join nesting on cpu_span.event_id = nesting.event_id
    where name_class.strong_phase = 'optimizer' and nesting.end_ns > nesting.start_ns
),

-- Outermost events of an optimizer.
optimizer_run as materialized (
    select
        track_id,
        start_ns,
        end_ns
    from optimizer
    where is_outermost
),

-- Nodes with the start and thread of the forward op. A node without a forward op, for example one adding up a gradient,
-- takes both from the previous node. `arg_max` replaces `last_value`, which would search back from each node, to the
-- first node if no node has a forward op.
returning_node as (
    select
        event_id,
        start_ns,
        end_ns,
        arg_max(forward_ns, position) over so_far as forward_ns,
        coalesce(arg_max(forward_track_id, position) over so_far, track_id) as track_id
    from (
        select
            node.event_id,
            node.track_id,
            node.start_ns,
            node.end_ns,
            nesting.start_ns as forward_ns,
            nesting.track_id as forward_track_id,
            row_number() over (order by node.track_id, node.start_ns, node.depth, node.event_id) as position
        from node
        left join nesting on node.forward_id = nesting.event_id
        where exists (select 1 from optimizer_run)
    ) as numbered_node
    window so_far as (partition by track_id order by position rows unbounded preceding)
),

-- Evidence of a call (`shows`), possible openings of a call (`opens`: a layer, or an op with a backward node), and
-- updates.
sign as (
    select
        track_id,
        forward_ns as start_ns,
        null as end_ns,
        'opens' as kind,
        null as name,
        null as forward_ns
    from returning_node
    where forward_ns is not null
    union all
    select
        track_id,
        start_ns,
        end_ns,
        'shows',
        null,
        forward_ns
    from returning_node
    union all
    select
        cpu_span.track_id,
        nesting.start_ns,
        nesting.end_ns,
        case
            when name_class.sign = 'layer' then 'opens'
            when name_class.sign = 'update' then 'update'
            else 'shows'
        end as kind,
        name_class.name,
        null
    from cpu_span
    inner join name_class on cpu_span.class_id = name_class.class_id
    inner join nesting on cpu_span.event_id = nesting.event_id
    left join nesting as around on nesting.parent_id = around.event_id
    left join event on around.op_id = event.event_id
    where
        exists (select 1 from optimizer_run)
        and not name_class.is_node
        and cpu_span.event_id not in (select forward_id from node where forward_id is not null)
        and (
            coalesce(name_class.strong_phase, name_class.weak_phase) in ('forward', 'loss', 'backward')
            or name_class.sign = 'layer'
            -- Many ops update a tensor internally; these updates are ignored.
            or name_class.sign = 'update' and not coalesce(contains(event.name, '::'), false)
        )
),

-- Signs inside an optimizer's run.
sign_in_run as (
    select
        sign.track_id,
        sign.start_ns,
        sign.end_ns,
        sign.kind,
        sign.name,
        optimizer_run.start_ns as optimizer_ns
    from sign
    asof inner join optimizer_run on sign.track_id = optimizer_run.track_id and sign.start_ns >= optimizer_run.start_ns
    -- Backward nodes of ops before the optimizer's run count as the optimizer's own work.
    where sign.start_ns < optimizer_run.end_ns and coalesce(sign.forward_ns >= optimizer_run.start_ns, true)
),

-- Starts and ends of all events of optimizers.
optimizer_edge as (
    select
        track_id,
        unnest([start_ns, end_ns]) as at_ns
    from optimizer
),

-- Starts and ends inside an optimizer's run.
border as (
    select
        optimizer_edge.track_id,
        optimizer_edge.at_ns as start_ns,
        optimizer_edge.at_ns as until_ns,
        'border' as kind,
        optimizer_run.start_ns as optimizer_ns
    from optimizer_edge
    asof inner join optimizer_run
        on optimizer_edge.track_id = optimizer_run.track_id and optimizer_edge.at_ns >= optimizer_run.start_ns
),

-- Signs and borders, with the latest end of forward or backward and the latest opening up to each.
sign_so_far as (
    select
        *,
        max(end_ns) filter (where kind = 'shows') over so_far as shown_ns,
        max(start_ns) filter (where kind = 'opens') over so_far as opened_ns,
        coalesce(lead(name) over so_far = 'aten::batch_norm', false) as is_counting
    from (
        select * from sign_in_run
        union all by name
        select * rename (until_ns as end_ns) from border
    )
    window so_far as (partition by track_id, optimizer_ns order by start_ns, kind rows unbounded preceding)
),

-- The same rows, with the time at which the optimizer resumes, if any: neither forward nor backward may be running.
sign_border as (
    select
        *,
        case
            when coalesce(shown_ns > start_ns, false) then null
            when
                kind = 'border'
                or kind = 'update' and not is_counting and coalesce(opened_ns < shown_ns, opened_ns is null)
                then end_ns
        end as border_ns
    from sign_so_far
),

-- The same rows, with the start of the call: the optimizer's last resumption.
sign_of_call as (
    select
        *,
        max(border_ns) over (
            partition by track_id, optimizer_ns order by start_ns, kind rows unbounded preceding
        ) as begin_ns
    from sign_border
)

select
    track_id,
    begin_ns as start_ns,
    max(end_ns) as end_ns,
    lag(begin_ns) over (partition by track_id, optimizer_ns order by begin_ns) is not null as is_again
from sign_of_call
where kind = 'shows'
group by track_id, optimizer_ns, begin_ns
having max(end_ns) > begin_ns
order by track_id, begin_ns
