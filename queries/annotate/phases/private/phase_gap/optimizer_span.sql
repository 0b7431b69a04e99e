-- Unmarked optimizers: the first and last update of each stretch after backward with an inferred optimizer.
--
-- Updates belong to an optimizer if ops of their name update at least a quarter as many tensors as the turn has
-- accumulated gradients, and more than one tensor. A single op updating many tensors is also enough.
--
-- :reads gap_sign, trained_span, turn_gradient, name_class
-- :only_with gap_sign where kind in ('update', 'rescale')
-- :column step_start_ns BIGINT  start of the step
-- :column stretch HUGEINT       the stretch, as in `phase_timeline`
-- :column start_ns BIGINT       start of the first update
-- :column end_ns BIGINT         end of the last update
with update_limit as materialized (
    -- End of the possible updates in a stretch after backward: the start of a forward pass, or the end of the signs.
    select
        gap_sign.step_start_ns,
        gap_sign.stretch,
        coalesce(
            any_value(trained_span.first_ns),
            min(gap_sign.start_ns) filter (where gap_sign.kind = 'layer'),
            max(gap_sign.end_ns)
        ) as until_ns
    from gap_sign
    left join trained_span
        on gap_sign.step_start_ns = trained_span.step_start_ns and gap_sign.stretch = trained_span.stretch
    where gap_sign.before_phase = 'backward'
    group by gap_sign.step_start_ns, gap_sign.stretch
),

-- Names whose ops update as many tensors as an optimizer.
update_name as (
    select
        gap_sign.step_start_ns,
        gap_sign.stretch,
        gap_sign.class_id
    from gap_sign
    inner join update_limit
        on gap_sign.step_start_ns = update_limit.step_start_ns and gap_sign.stretch = update_limit.stretch
    inner join name_class on gap_sign.class_id = name_class.class_id
    left join turn_gradient
        on gap_sign.step_start_ns = turn_gradient.step_start_ns and gap_sign.turn = turn_gradient.turn
    where gap_sign.kind in ('update', 'rescale') and gap_sign.start_ns < update_limit.until_ns
    group by gap_sign.step_start_ns, gap_sign.stretch, gap_sign.class_id
    having
        count(*) >= greatest(2, any_value(turn_gradient.gradients) / 4)
        or is_list_op(any_value(name_class.name))
        or contains(any_value(name_class.name), '::_amp_')
),

numbered_update as (
    select
        gap_sign.step_start_ns,
        gap_sign.stretch,
        gap_sign.turn,
        gap_sign.class_id,
        gap_sign.start_ns,
        gap_sign.end_ns,
        gap_sign.start_ns - lag(gap_sign.end_ns) over in_order as pause_ns,
        row_number() over in_order as number,
        count(*) over (partition by gap_sign.step_start_ns, gap_sign.stretch) as total
    from gap_sign
    inner join update_limit
        on gap_sign.step_start_ns = update_limit.step_start_ns and gap_sign.stretch = update_limit.stretch
    inner join update_name
        on
            gap_sign.step_start_ns = update_name.step_start_ns
            and gap_sign.stretch = update_name.stretch
            and gap_sign.class_id = update_name.class_id
    where gap_sign.start_ns < update_limit.until_ns
    window in_order as (partition by gap_sign.step_start_ns, gap_sign.stretch order by gap_sign.start_ns)
),

-- Updates with `followers`: the number of later updates that have the same name as the last update of the stretch. The
-- followers are summed from the end; counting for each update would take quadratic time.
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
        from numbered_update
    )
),

-- Stretches with averaging of weights after the optimizer, with the number of the optimizer's last update. An optimizer
-- that iterates over tensors ends with all its ops. If some names end early and an op of another name then updates as
-- many tensors, the later ops average the weights.
last_update as (
    select
        followed_update.step_start_ns,
        followed_update.stretch,
        max(followed_update.number) as number
    from followed_update
    inner join turn_gradient
        on
            followed_update.step_start_ns = turn_gradient.step_start_ns
            and followed_update.turn = turn_gradient.turn
    where
        followed_update.from_last = 1
        and followed_update.followers >= greatest(3, 0.9 * turn_gradient.gradients)
        and 2 * followed_update.number > followed_update.total -- clipping is no optimizer
    group by followed_update.step_start_ns, followed_update.stretch
),

optimizer_update as materialized (
    select numbered_update.* replace (coalesce(last_update.number, numbered_update.total) as total)
    from numbered_update
    left join last_update
        on
            numbered_update.step_start_ns = last_update.step_start_ns
            and numbered_update.stretch = last_update.stretch
    where coalesce(numbered_update.number <= last_update.number, true)
),

-- The longest pause between the updates of a stretch. Metrics may also be accumulated in place. A pause longer than all
-- the rest separates metrics from the optimizer, the side with more updates.
longest_pause as (
    select
        step_start_ns,
        stretch,
        arg_max(start_ns, pause_ns) as pause_end_ns,
        2 * max(pause_ns) > max(end_ns) - min(start_ns) as parts_sides,
        2 * (arg_max(number, pause_ns) - 1) >= any_value(total) as is_first_side
    from optimizer_update
    group by step_start_ns, stretch
),

side_update as (
    select
        optimizer_update.step_start_ns,
        optimizer_update.stretch,
        optimizer_update.class_id,
        optimizer_update.start_ns,
        optimizer_update.end_ns,
        -- Ops on lists are not metrics. Ops before the pause belong to the optimizer, as do ops after the pause that
        -- cannot be averages.
        not coalesce(longest_pause.parts_sides, false)
        or (optimizer_update.start_ns < longest_pause.pause_end_ns) = longest_pause.is_first_side
        or is_list_op(name_class.name)
        and (
            optimizer_update.start_ns < longest_pause.pause_end_ns
            or not regexp_matches(name_class.name, '::_foreach_(mul|add|lerp|copy)_$')
        ) as is_kept
    from optimizer_update
    inner join name_class on optimizer_update.class_id = name_class.class_id
    inner join longest_pause
        on
            optimizer_update.step_start_ns = longest_pause.step_start_ns
            and optimizer_update.stretch = longest_pause.stretch
)

-- If ops of all names, more than a sum needs, are on both sides of the pause, the pause is inside the optimizer.
select
    step_start_ns,
    stretch,
    case
        when
            count(distinct class_id) > 2
            and count(distinct class_id) filter (where not is_kept) = count(distinct class_id)
            then min(start_ns)
        else min(start_ns) filter (where is_kept)
    end as start_ns,
    case
        when
            count(distinct class_id) > 2
            and count(distinct class_id) filter (where not is_kept) = count(distinct class_id)
            then max(end_ns)
        else max(end_ns) filter (where is_kept)
    end as end_ns
from side_update
group by step_start_ns, stretch
