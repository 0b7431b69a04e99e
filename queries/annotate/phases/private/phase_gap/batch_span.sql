-- Batch preparation in the head of each stretch, and the part of the head that belongs to the previous step.
--
-- The head of a stretch begins after the stretch's updates, and ends before the first layer of a forward pass or the
-- first op with a backward node.
--
-- :reads gap_sign, weight_copy, phase_stretch
-- :only_with weight_copy or gap_sign
-- :column step_start_ns BIGINT  start of the step
-- :column stretch HUGEINT       the stretch, as in `phase_timeline`
-- :column fetching_ns BIGINT    start of the first op that assembles a batch or draws random numbers; NULL if absent
-- :column fetched_ns BIGINT     end of the last op that assembles a batch; if the step has no other batch, end of the
--                               last op that draws a random batch before any tensor is created; NULL if absent, or
--                               after `load_data`
-- :column logged_ns BIGINT      end of the last event before `fetching_ns` that reads a value back, writes a file,
--                               copies weights, or is among more than two updates of one name; NULL if absent, or
--                               after `load_data`
-- :column reading_ns BIGINT     start of the last op before `logged_ns` that reads a value back; NULL if absent
-- :column made_ns BIGINT        start of the first op after `fetched_ns` and `logged_ns` that draws random numbers or
--                               creates a tensor; NULL if absent
with first_fetch as (
    select
        step_start_ns,
        min(stretch) as stretch
    from gap_sign
    where kind = 'fetch'
    group by step_start_ns
),

stretch_sign as (
    select
        step_start_ns,
        stretch,
        before_phase,
        had_batch,
        start_ns,
        end_ns,
        kind,
        class_id
    from gap_sign
    where kind in ('read', 'write', 'update', 'fetch', 'draw', 'create')
    union all
    select
        step_start_ns,
        stretch,
        before_phase,
        had_batch,
        start_ns,
        end_ns,
        'weights',
        null
    from weight_copy
),

-- Signs in the heads.
head_sign as (
    select
        sign.step_start_ns,
        sign.stretch,
        sign.start_ns,
        sign.end_ns,
        sign.kind,
        coalesce(sign.before_phase = 'load_data', false) as is_loaded,
        sign.had_batch or coalesce(first_fetch.stretch < sign.stretch, false) as had_batch,
        count(*) over (partition by sign.step_start_ns, sign.stretch, sign.class_id) as same_name_count
    from stretch_sign as sign
    inner join phase_stretch
        on sign.step_start_ns = phase_stretch.step_start_ns and sign.stretch = phase_stretch.stretch
    left join first_fetch on sign.step_start_ns = first_fetch.step_start_ns
    where
        sign.start_ns >= coalesce(phase_stretch.updated_ns, 0)
        and coalesce(sign.start_ns < least(phase_stretch.first_ns, phase_stretch.layer_ns), true)
),

-- A random draw counts as the batch if the step has no other batch.
sign_and_batch as (
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
        from head_sign
    )
    window in_stretch as (partition by step_start_ns, stretch)
),

-- Before a batch is fetched, values read back, files written, weights copied and values averaged in place belong to the
-- previous batch.
sign_and_log as (
    select
        *,
        max(end_ns) filter (
            where not is_loaded and coalesce(start_ns < fetching_ns, true)
            and (kind in ('read', 'write', 'weights') or kind = 'update' and same_name_count > 2)
        ) over (partition by step_start_ns, stretch) as logged_ns
    from sign_and_batch
)

select
    step_start_ns,
    stretch,
    any_value(fetching_ns) as fetching_ns,
    any_value(fetched_ns) as fetched_ns,
    any_value(logged_ns) as logged_ns,
    max(start_ns) filter (where kind = 'read' and start_ns < logged_ns) as reading_ns,
    min(start_ns) filter (
        where kind in ('draw', 'create') and start_ns >= coalesce(greatest(fetched_ns, logged_ns), 0)
    ) as made_ns
from sign_and_log
group by step_start_ns, stretch
