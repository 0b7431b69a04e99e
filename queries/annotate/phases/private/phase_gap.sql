-- The gaps between the phases that the main thread shows, inside steps, and what stands in them.
--
-- Gaps between the same two phases are one stretch, whose times all of its gaps have in common: `zero_grad` and `other`
-- may stand anywhere and part nothing.
--
-- Updates count as an optimizer's if ops of their name update at least a quarter as many tensors as gradients were
-- added up since the last phase but backward, and not just one; or if one op updates many.
--
-- :reads phase_evidence, main_track, step, node, nesting, cpu_span, event, name_class
-- :column start_ns BIGINT            start of the gap
-- :column end_ns BIGINT              end of the gap
-- :column is_step BOOLEAN            something marks the step around it; false where the whole trace is one step
-- :column before_phase PHASE         the last phase shown before it in its step, but for `zero_grad` and `other`; NULL
--                                    without one
-- :column before_evidence VARCHAR    what shows `before_phase`, as in `phase_span`; NULL without one
-- :column previous_phase PHASE       the phase shown right before it, of whatever kind; NULL where the gap begins the
--                                    step
-- :column previous_evidence VARCHAR  what shows `previous_phase`; NULL without one
-- :column next_phase PHASE           the phase shown right after it, of whatever kind; NULL where the gap ends the step
-- :column after_phase PHASE          the next phase shown after it in its step, but for `zero_grad` and `other`; NULL
--                                    without one
-- :column zero_ns BIGINT             of its stretch: start of the last `zero_grad`; NULL if none follows a gap of the
--                                    stretch
-- :column had_model BOOLEAN          a forward pass is shown before it in its step, or the first layer of the step's
--                                    gaps stands before it
-- :column zeroed_ns BIGINT           of its stretch: start of the first op after the last `zero_grad` that a gap
--                                    follows; NULL without one
-- :column optimizer_ns BIGINT        of its stretch: start of the first update that counts as an optimizer's, or of an
--                                    earlier op that clips; in the gap that holds it, start of the first op there after
--                                    the last value read back before it, if that is earlier; NULL without one
-- :column updated_ns BIGINT          of its stretch: end of the last update that counts as an optimizer's; NULL without
--                                    one
-- :column first_ns BIGINT            of its stretch: start of the first op that backward comes back to, or of an op
--                                    around it; NULL without one
-- :column known_ns BIGINT            of its stretch: end of the last op that backward comes back to; NULL without one
-- :column layer_ns BIGINT            of its stretch: start of the first layer after `updated_ns`; NULL without one
-- :column modelled_ns BIGINT         of its stretch: end of the last layer, activation, softmax or sigmoid; NULL
--                                    without one
-- :column output_ns BIGINT           of its stretch: end of the last softmax or sigmoid; NULL without one
-- :column read_ns BIGINT             of its stretch: end of the last op that reads a value back after `known_ns`; NULL
--                                    without one
-- :column fetching_ns BIGINT         of the head of its stretch (the signs after `updated_ns` and before `first_ns` and
--                                    `layer_ns`): start of the first op that puts a batch together or draws at random;
--                                    NULL without one
-- :column fetched_ns BIGINT          of the head: end of the last op that puts a batch together; if nothing else brings
--                                    the step a batch, of the last op that draws one before any tensor is made; NULL
--                                    without one, or after `load_data`
-- :column logged_ns BIGINT           of the head: end of the last op before `fetching_ns` that reads a value back,
--                                    changes the scale of mixed precision, or is one of more than two updates of one
--                                    name; NULL without one, or after `load_data`
-- :column reading_ns BIGINT          of the head: start of the last op that reads a value back before `logged_ns`; NULL
--                                    without one
-- :column rescaled_ns BIGINT         of the head: end of the last op that changes the scale of mixed precision; NULL
--                                    without one
-- :column made_ns BIGINT             of the head: start of the first op that draws or makes a tensor after `fetched_ns`
--                                    and `logged_ns`; NULL without one
-- :column is_between_nodes BOOLEAN   the gap lies between two of autograd's nodes on the main thread, with nothing in
--                                    it; such a gap has only its times and `is_step`, all else is NULL
with main_piece as materialized (
    select
        phase_evidence.start_ns,
        phase_evidence.end_ns,
        phase_evidence.found.label,
        phase_evidence.found.evidence,
        step.start_ns as step_start_ns,
        step.evidence != 'whole_trace' as is_step
    from phase_evidence
    asof inner join step on phase_evidence.start_ns >= step.start_ns
    where phase_evidence.track_id in (select track_id from main_track) and phase_evidence.start_ns < step.end_ns
),

step_end as (
    select
        step.start_ns as step_start_ns,
        step.end_ns as step_end_ns,
        coalesce(max(main_piece.end_ns), step.start_ns) as last_ns,
        any_value(step.evidence) != 'whole_trace' as is_step
    from step
    left join main_piece on step.start_ns = main_piece.step_start_ns
    group by step.start_ns, step.end_ns
),

piece as materialized (
    select
        *,
        lag(label) over in_step as previous,
        lead(label) over in_step as next
    from (
        select * from main_piece
        union all by name
        select
            last_ns as start_ns,
            step_end_ns as end_ns,
            step_start_ns,
            is_step
        from step_end
        where step_end_ns > last_ns
    )
    window in_step as (partition by step_start_ns order by start_ns)
),

sign as (
    select
        nesting.start_ns,
        nesting.end_ns,
        'differentiable' as kind,
        null as class_id,
        nesting.parent_id,
        null as event_id
    from node
    inner join nesting on node.forward_id = nesting.event_id
    where nesting.track_id in (select track_id from main_track)
    union all
    select
        cpu_span.start_ns,
        cpu_span.end_ns,
        name_class.sign,
        cpu_span.class_id,
        null,
        cpu_span.event_id
    from cpu_span
    inner join name_class on cpu_span.class_id = name_class.class_id
    where name_class.sign is not null and cpu_span.track_id in (select track_id from main_track)
),

-- As-of joins, as joins by ranges alone compare each piece with each op.
standing as (
    select
        sign.*,
        piece.start_ns as piece_ns
    from sign
    asof inner join piece on sign.start_ns >= piece.start_ns
    where sign.start_ns < piece.end_ns and piece.label is null
),

-- Many ops make a tensor, update it or read it back inside: that is no sign.
within as (
    select standing.event_id
    from standing
    inner join nesting on standing.event_id = nesting.event_id
    inner join nesting as around on nesting.parent_id = around.event_id
    inner join event on around.op_id = event.event_id
    where
        standing.kind in ('update', 'read', 'fetch', 'draw', 'create')
        and contains(event.name, '::')
),

placed as materialized (
    select * exclude (event_id)
    from standing
    where event_id is null or event_id not in (select event_id from within)
),

-- Where autograd runs on the main thread, most gaps lie between two of its nodes, with nothing in them.
sorted as (
    select
        *,
        coalesce(label = 'backward', false) as is_backward,
        label is null and previous = 'backward' and next = 'backward'
        and start_ns not in (select piece_ns from placed) as is_between
    from piece
),

edged as materialized (
    select
        *,
        coalesce(lag(is_backward or is_between) over in_step, false)
        and (is_backward or coalesce(is_between, false))
        and coalesce(lead(is_backward or is_between) over in_step, false) as is_inner
    from sorted
    window in_step as (partition by step_start_ns order by start_ns)
),

broken as (
    select
        *,
        coalesce((label, evidence) is distinct from lag((label, evidence)) over in_step, true) as is_new
    from edged
    where not is_inner
    window in_step as (partition by step_start_ns order by start_ns)
),

numbered as (
    select
        *,
        sum(is_new::integer) over (partition by step_start_ns order by start_ns rows unbounded preceding) as number
    from broken
),

timeline as materialized (
    select
        step_start_ns,
        min(start_ns) as start_ns,
        max(end_ns) as end_ns,
        any_value(is_step) as is_step,
        any_value(label) as label,
        any_value(evidence) as evidence
    from numbered
    group by step_start_ns, number
),

held as materialized (
    select
        placed.* replace (timeline.start_ns as piece_ns)
    from placed
    asof inner join timeline on placed.start_ns >= timeline.start_ns
    where timeline.label is null
),

told as (
    select
        *,
        case when label not in ('zero_grad', 'other') then {'label': label, 'evidence': evidence} end as telling
    from timeline
),

context as materialized (
    select
        *,
        lag(label) over in_step as previous_phase,
        lag(evidence) over in_step as previous_evidence,
        lead(label) over in_step as next_phase,
        last_value(telling ignore nulls) over so_far as before,
        first_value(telling.label ignore nulls) over (
            partition by step_start_ns order by start_ns rows between 1 following and unbounded following
        ) as after_phase,
        coalesce(sum((telling is not null)::integer) over so_far, 0) as stretch,
        coalesce(sum((telling.label = 'forward')::integer) over so_far, 0) > 0 as had_forward,
        coalesce(sum((telling.label = 'load_data')::integer) over so_far, 0) > 0 as had_batch,
        coalesce(sum((telling is not null and telling.label != 'backward')::integer) over so_far, 0) as turn
    from told
    window
        in_step as (partition by step_start_ns order by start_ns),
        so_far as (partition by step_start_ns order by start_ns rows between unbounded preceding and 1 preceding)
),

gap as materialized (
    select * exclude (label, evidence, telling)
    from context
    where label is null
),

inside as materialized (
    select
        gap.step_start_ns,
        gap.stretch,
        gap.turn,
        gap.before.label as before_phase,
        gap.had_batch,
        held.start_ns,
        least(held.end_ns, gap.end_ns) as end_ns,
        held.kind,
        held.class_id,
        held.parent_id
    from held
    inner join gap
        on held.piece_ns = gap.start_ns
),

known as (
    select
        step_start_ns,
        stretch,
        min(start_ns) as first_ns,
        max(end_ns) as known_ns,
        arg_min(parent_id, start_ns) as parent_id
    from inside
    where kind = 'differentiable'
    group by step_start_ns, stretch
),

-- The op that a node comes back to is often a part of another.
first_op as materialized (
    select
        known.step_start_ns,
        known.stretch,
        known.known_ns,
        least(known.first_ns, op.start_ns, outer_op.start_ns) as first_ns
    from known
    left join nesting as around on known.parent_id = around.event_id
    left join nesting as op on around.op_id = op.event_id
    left join nesting as outer_around on op.parent_id = outer_around.event_id
    left join nesting as outer_op on outer_around.op_id = outer_op.event_id
),

gradient as (
    select
        timeline.step_start_ns,
        context.turn,
        count(*) as gradients
    from cpu_span
    inner join name_class on cpu_span.class_id = name_class.class_id
    asof inner join timeline on cpu_span.start_ns >= timeline.start_ns
    inner join context on timeline.start_ns = context.start_ns
    where name_class.name = 'torch::autograd::AccumulateGrad'
    group by timeline.step_start_ns, context.turn
),

bound as materialized (
    select
        inside.step_start_ns,
        inside.stretch,
        coalesce(
            any_value(first_op.first_ns), min(inside.start_ns) filter (where inside.kind = 'layer'), max(inside.end_ns)
        ) as until_ns
    from inside
    left join first_op on inside.step_start_ns = first_op.step_start_ns and inside.stretch = first_op.stretch
    where inside.before_phase = 'backward'
    group by inside.step_start_ns, inside.stretch
),

update_name as (
    select
        inside.step_start_ns,
        inside.stretch,
        inside.class_id
    from inside
    inner join bound on inside.step_start_ns = bound.step_start_ns and inside.stretch = bound.stretch
    inner join name_class on inside.class_id = name_class.class_id
    left join gradient on inside.step_start_ns = gradient.step_start_ns and inside.turn = gradient.turn
    where inside.kind in ('update', 'rescale') and inside.start_ns < bound.until_ns
    group by inside.step_start_ns, inside.stretch, inside.class_id
    having
        count(*) >= greatest(2, any_value(gradient.gradients) / 4)
        or regexp_matches(any_value(name_class.name), '::_(foreach|fused|amp)_')
),

counted_update as (
    select
        inside.step_start_ns,
        inside.stretch,
        inside.turn,
        inside.class_id,
        inside.start_ns,
        inside.end_ns,
        inside.start_ns - lag(inside.end_ns) over in_order as pause_ns,
        row_number() over in_order as number,
        count(*) over (partition by inside.step_start_ns, inside.stretch) as total
    from inside
    inner join bound on inside.step_start_ns = bound.step_start_ns and inside.stretch = bound.stretch
    inner join update_name
        on
            inside.step_start_ns = update_name.step_start_ns
            and inside.stretch = update_name.stretch
            and inside.class_id = update_name.class_id
    where inside.start_ns < bound.until_ns
    window in_order as (partition by inside.step_start_ns, inside.stretch order by inside.start_ns)
),

-- An optimizer that goes from tensor to tensor ends with all its ops. Where some of their names end so early that an
-- op of another name updates as many tensors after them, these are averages of the weights.
-- They are summed up from the end, as counting what follows each of them takes time that grows with the square.
followed_update as (
    select
        *,
        sum((class_id = last_class_id)::integer) over (
            partition by step_start_ns, stretch order by number desc rows unbounded preceding
        ) - (class_id = last_class_id)::integer as followers,
        row_number() over (partition by step_start_ns, stretch, class_id order by number desc) as from_last
    from (
        select
            *,
            arg_max(class_id, number) over (partition by step_start_ns, stretch) as last_class_id
        from counted_update
    )
),

last_update as (
    select
        ended.step_start_ns,
        ended.stretch,
        max(ended.number) as number
    from followed_update as ended
    inner join gradient on ended.step_start_ns = gradient.step_start_ns and ended.turn = gradient.turn
    where
        ended.from_last = 1
        and ended.followers >= greatest(3, 0.9 * gradient.gradients)
        and 2 * ended.number > ended.total -- clipping is no optimizer
    group by ended.step_start_ns, ended.stretch
),

telling_update as materialized (
    select counted_update.* replace (coalesce(last_update.number, counted_update.total) as total)
    from counted_update
    left join last_update
        on
            counted_update.step_start_ns = last_update.step_start_ns
            and counted_update.stretch = last_update.stretch
    where coalesce(counted_update.number <= last_update.number, true)
),

-- Metrics may be summed up in place, too. A pause longer than all the rest parts them from the optimizer.
parted as (
    select
        step_start_ns,
        stretch,
        arg_max(start_ns, pause_ns) as parted_ns,
        2 * max(pause_ns) > max(end_ns) - min(start_ns) as is_parted,
        2 * (arg_max(number, pause_ns) - 1) >= any_value(total) as is_first
    from telling_update
    group by step_start_ns, stretch
),

-- But where ops of all its names, more than a sum needs, follow the pause, it is the optimizer's own.
sided as (
    select
        telling_update.step_start_ns,
        telling_update.stretch,
        telling_update.class_id,
        telling_update.start_ns,
        telling_update.end_ns,
        not coalesce(parted.is_parted, false)
        or (telling_update.start_ns < parted.parted_ns) = parted.is_first as is_kept
    from telling_update
    inner join parted
        on telling_update.step_start_ns = parted.step_start_ns and telling_update.stretch = parted.stretch
),

updated as materialized (
    select
        step_start_ns,
        stretch,
        count(distinct class_id) > 2
        and count(distinct class_id) filter (where not is_kept) = count(distinct class_id) as is_whole,
        min(start_ns) filter (where is_kept) as kept_ns,
        max(end_ns) filter (where is_kept) as kept_end_ns,
        case when is_whole then min(start_ns) else kept_ns end as start_ns,
        case when is_whole then max(end_ns) else kept_end_ns end as end_ns
    from sided
    group by step_start_ns, stretch
),

stretch as materialized (
    select
        inside.step_start_ns,
        inside.stretch,
        least(
            any_value(updated.start_ns),
            min(inside.start_ns) filter (
                where inside.kind = 'clip' and coalesce(inside.start_ns < updated.end_ns, true)
            )
        ) as optimizer_ns,
        any_value(updated.end_ns) as updated_ns,
        any_value(first_op.first_ns) as first_ns,
        any_value(first_op.known_ns) as known_ns,
        min(inside.start_ns) filter (where inside.kind = 'layer' and inside.start_ns >= coalesce(updated.end_ns, 0))
            as layer_ns,
        max(inside.end_ns) filter (where inside.kind in ('layer', 'activation', 'output')) as modelled_ns,
        max(inside.end_ns) filter (where inside.kind = 'output') as output_ns,
        max(inside.end_ns) filter (where inside.kind = 'read' and inside.start_ns >= coalesce(first_op.known_ns, 0))
            as read_ns
    from inside
    left join first_op on inside.step_start_ns = first_op.step_start_ns and inside.stretch = first_op.stretch
    left join updated on inside.step_start_ns = updated.step_start_ns and inside.stretch = updated.stretch
    group by inside.step_start_ns, inside.stretch
),

-- Unscaling, clipping and updating begin with ops that any code may have, but do not read values back.
cleared as (
    select
        inside.step_start_ns,
        inside.stretch,
        max(inside.end_ns) filter (where inside.kind = 'read') as cleared_ns,
        any_value(stretch.optimizer_ns) as clip_ns
    from inside
    inner join stretch on inside.step_start_ns = stretch.step_start_ns and inside.stretch = stretch.stretch
    where inside.start_ns <= stretch.optimizer_ns
    group by inside.step_start_ns, inside.stretch
),

first_fetch as (
    select
        step_start_ns,
        min(stretch) as stretch
    from inside
    where kind = 'fetch'
    group by step_start_ns
),

-- What stands before the first layer of a forward pass, or the first op that backward comes back to.
head as (
    select
        inside.step_start_ns,
        inside.stretch,
        inside.start_ns,
        inside.end_ns,
        inside.kind,
        coalesce(inside.before_phase = 'load_data', false) as is_loaded,
        inside.had_batch or coalesce(first_fetch.stretch < inside.stretch, false) as had_batch,
        count(*) over (partition by inside.step_start_ns, inside.stretch, inside.class_id) as alike
    from inside
    inner join stretch on inside.step_start_ns = stretch.step_start_ns and inside.stretch = stretch.stretch
    left join first_fetch on inside.step_start_ns = first_fetch.step_start_ns
    where
        inside.kind in ('read', 'update', 'rescale', 'fetch', 'draw', 'create')
        and inside.start_ns >= coalesce(stretch.updated_ns, 0)
        and coalesce(inside.start_ns < least(stretch.first_ns, stretch.layer_ns), true)
),

-- A batch is drawn at random where nothing else brings one.
fetched as (
    select
        * exclude (creating_ns),
        min(start_ns) filter (where kind in ('fetch', 'draw')) over in_stretch as fetching_ns,
        case
            when is_loaded then null
            when had_batch then max(end_ns) filter (where kind = 'fetch') over in_stretch
            else
                coalesce(
                    max(end_ns) filter (where kind = 'fetch') over in_stretch,
                    max(end_ns) filter (where kind = 'draw' and coalesce(start_ns < creating_ns, true)) over in_stretch
                )
        end as fetched_ns
    from (
        select
            *,
            min(start_ns) filter (where kind = 'create') over (partition by step_start_ns, stretch) as creating_ns
        from head
    )
    window in_stretch as (partition by step_start_ns, stretch)
),

-- What is read back, or averaged in place, before a batch is fetched, is of the one before.
told_apart as (
    select
        *,
        max(end_ns) filter (
            where not is_loaded and coalesce(start_ns < fetching_ns, true)
            and (kind in ('read', 'rescale') or kind = 'update' and alike > 2)
        ) over (partition by step_start_ns, stretch) as logged_ns
    from fetched
),

begun as materialized (
    select
        step_start_ns,
        stretch,
        any_value(fetching_ns) as fetching_ns,
        any_value(fetched_ns) as fetched_ns,
        any_value(logged_ns) as logged_ns,
        max(start_ns) filter (where kind = 'read' and start_ns < logged_ns) as reading_ns,
        max(end_ns) filter (where kind = 'rescale') as rescaled_ns,
        min(start_ns) filter (
            where kind in ('draw', 'create') and start_ns >= coalesce(greatest(fetched_ns, logged_ns), 0)
        ) as made_ns
    from told_apart
    group by step_start_ns, stretch
),

-- The first op after `zero_grad`, or after the last value read before gradients are used.
follower as (
    select
        point.start_ns,
        nesting.start_ns as op_ns,
        point.clip_ns
    from (
        select
            gap.start_ns,
            greatest(gap.start_ns, cleared.cleared_ns) as from_ns,
            cleared.clip_ns
        from gap
        left join cleared
            on
                gap.step_start_ns = cleared.step_start_ns
                and gap.stretch = cleared.stretch
                and gap.start_ns <= cleared.clip_ns
                and gap.end_ns > cleared.clip_ns
        where gap.previous_phase = 'zero_grad' or cleared.clip_ns is not null
    ) as point
    asof inner join (
        select start_ns
        from nesting
        where op_id = event_id and track_id in (select track_id from main_track)
    ) as nesting
        on point.from_ns <= nesting.start_ns
)

select
    gap.start_ns,
    gap.end_ns,
    gap.is_step,
    gap.before.label as before_phase,
    gap.before.evidence as before_evidence,
    gap.previous_phase,
    gap.previous_evidence,
    gap.next_phase,
    gap.after_phase,
    max(case when gap.next_phase = 'zero_grad' then gap.end_ns end) over (
        partition by gap.step_start_ns, gap.stretch
    ) as zero_ns,
    gap.had_forward
    or coalesce(min(stretch.layer_ns) over (partition by gap.step_start_ns) < gap.start_ns, false) as had_model,
    max(case when gap.previous_phase = 'zero_grad' then follower.op_ns end) over (
        partition by gap.step_start_ns, gap.stretch
    ) as zeroed_ns,
    stretch.* exclude (step_start_ns, stretch) replace (
        case
            when follower.clip_ns is null then stretch.optimizer_ns
            else least(follower.op_ns, follower.clip_ns)
        end as optimizer_ns
    ),
    begun.* exclude (step_start_ns, stretch),
    false as is_between_nodes
from gap
left join stretch on gap.step_start_ns = stretch.step_start_ns and gap.stretch = stretch.stretch
left join follower on gap.start_ns = follower.start_ns
left join begun on gap.step_start_ns = begun.step_start_ns and gap.stretch = begun.stretch
union all by name
select
    start_ns,
    end_ns,
    is_step,
    true as is_between_nodes
from edged
where is_inner and is_between
