-- Where an optimizer runs the program: calls of the closure that `optimizer.step(closure)` was given.
--
-- What an annotation or frame of an optimizer holds is the optimizer's own but for these calls. Autograd shows one: the
-- nodes that run there and come back to ops there. So do, without gradients, a module's frame and a loss. A call ends
-- with the last of them. It begins where the optimizer was entered, or after the last update in place before it: an
-- optimizer changes the weights between two calls (LBFGS, SAM), and code that adds up the gradients of several batches
-- does not. An update inside forward is none of the optimizer's: it follows a layer, or an op that autograd comes back
-- to, or counts batches right before a batch norm.
-- So no call holds the start or the end of an optimizer, but where forward or backward themselves do. `is_again` is
-- true where the optimizer has called it before in this step.
--
-- :reads cpu_span, nesting, name_class, node, event
-- :column track_id BIGINT   TODO
-- :column start_ns BIGINT   TODO
-- :column end_ns BIGINT     TODO
-- :column is_again BOOLEAN  TODO
with optimizer as materialized (
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

outermost as materialized (
    select
        track_id,
        start_ns,
        end_ns
    from optimizer
    where is_outermost
),

-- A node without a number, such as one that adds a gradient up, is of the pass of the one before it.
returned as (
    select
        node.event_id,
        node.start_ns,
        node.end_ns,
        last_value(nesting.start_ns ignore nulls) over so_far as forward_ns,
        coalesce(last_value(nesting.track_id ignore nulls) over so_far, node.track_id) as track_id
    from node
    left join nesting on node.forward_id = nesting.event_id
    where exists (select 1 from outermost)
    window so_far as (partition by node.track_id order by node.start_ns, node.depth rows unbounded preceding)
),

sign as (
    select
        track_id,
        forward_ns as start_ns,
        null as end_ns,
        'opens' as kind,
        null as name,
        null as forward_ns
    from returned
    where forward_ns is not null
    union all
    select
        track_id,
        start_ns,
        end_ns,
        'shows',
        null,
        forward_ns
    from returned
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
        exists (select 1 from outermost)
        and not name_class.is_node
        and cpu_span.event_id not in (select forward_id from node where forward_id is not null)
        and (
            coalesce(name_class.strong_phase, name_class.weak_phase) in ('forward', 'loss', 'backward')
            or name_class.sign = 'layer'
            -- many ops update a tensor inside: that is no sign
            or name_class.sign = 'update' and not coalesce(contains(event.name, '::'), false)
        )
),

standing as (
    select
        sign.track_id,
        sign.start_ns,
        sign.end_ns,
        sign.kind,
        sign.name,
        outermost.start_ns as optimizer_ns
    from sign
    asof inner join outermost on sign.track_id = outermost.track_id and sign.start_ns >= outermost.start_ns
    -- gradients of what ran before are the optimizer's own
    where sign.start_ns < outermost.end_ns and coalesce(sign.forward_ns >= outermost.start_ns, true)
),

edge as (
    select
        track_id,
        unnest([start_ns, end_ns]) as at_ns
    from optimizer
),

border as (
    select
        edge.track_id,
        edge.at_ns as start_ns,
        edge.at_ns as until_ns,
        'border' as kind,
        outermost.start_ns as optimizer_ns
    from edge
    asof inner join outermost on edge.track_id = outermost.track_id and edge.at_ns >= outermost.start_ns
),

in_order as (
    select
        *,
        max(end_ns) filter (where kind = 'shows') over so_far as shown_ns,
        max(start_ns) filter (where kind = 'opens') over so_far as opened_ns,
        coalesce(lead(name) over so_far = 'aten::batch_norm', false) as is_counting
    from (
        select * from standing
        union all by name
        select * rename (until_ns as end_ns) from border
    )
    window so_far as (partition by track_id, optimizer_ns order by start_ns, kind rows unbounded preceding)
),

-- A border is where the optimizer goes on, if neither forward nor backward run there.
parted as (
    select
        *,
        case
            when coalesce(shown_ns > start_ns, false) then null
            when
                kind = 'border'
                or kind = 'update' and not is_counting and coalesce(opened_ns < shown_ns, opened_ns is null)
                then end_ns
        end as border_ns
    from in_order
),

begun as (
    select
        *,
        max(border_ns) over (
            partition by track_id, optimizer_ns order by start_ns, kind rows unbounded preceding
        ) as begin_ns
    from parted
)

select
    track_id,
    begin_ns as start_ns,
    max(end_ns) as end_ns,
    lag(begin_ns) over (partition by track_id, optimizer_ns order by begin_ns) is not null as is_again
from begun
where kind = 'shows'
group by track_id, optimizer_ns, begin_ns
having max(end_ns) > begin_ns
order by track_id, begin_ns
