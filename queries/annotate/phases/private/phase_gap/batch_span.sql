-- One row per stretch with a head: where a batch is put together in it, and what of it belongs to the step before.
--
-- The head of a stretch is what stands after its updates, and before the first layer of a forward pass or the first op
-- that backward comes back to.
--
-- :reads gap_sign, phase_stretch
-- :only_with gap_sign where kind in ('read', 'update', 'fetch', 'draw', 'create')
-- :column step_start_ns BIGINT  start of the step
-- :column stretch HUGEINT       the stretch, as in `phase_timeline`
-- :column fetching_ns BIGINT    start of the first op that puts a batch together or draws at random; NULL without one
-- :column fetched_ns BIGINT     end of the last op that puts a batch together; if nothing else brings the step a batch,
--                               of the last op that draws one before any tensor is made; NULL without one, or after
--                               `load_data`
-- :column logged_ns BIGINT      end of the last op before `fetching_ns` that reads a value back, or is one of more than
--                               two updates of one name; NULL without one, or after `load_data`
-- :column reading_ns BIGINT     start of the last op that reads a value back before `logged_ns`; NULL without one
-- :column made_ns BIGINT        start of the first op that draws or makes a tensor after `fetched_ns` and `logged_ns`;
--                               NULL without one
with first_fetch as (
    select
        step_start_ns,
        min(stretch) as stretch
    from gap_sign
    where kind = 'fetch'
    group by step_start_ns
),

-- Signs in the heads.
head_sign as (
    select
        gap_sign.step_start_ns,
        gap_sign.stretch,
        gap_sign.start_ns,
        gap_sign.end_ns,
        gap_sign.kind,
        coalesce(gap_sign.before_phase = 'load_data', false) as is_loaded,
        gap_sign.had_batch or coalesce(first_fetch.stretch < gap_sign.stretch, false) as had_batch,
        count(*) over (partition by gap_sign.step_start_ns, gap_sign.stretch, gap_sign.class_id) as same_name_count
    from gap_sign
    inner join phase_stretch
        on gap_sign.step_start_ns = phase_stretch.step_start_ns and gap_sign.stretch = phase_stretch.stretch
    left join first_fetch on gap_sign.step_start_ns = first_fetch.step_start_ns
    where
        gap_sign.kind in ('read', 'update', 'fetch', 'draw', 'create')
        and gap_sign.start_ns >= coalesce(phase_stretch.updated_ns, 0)
        and coalesce(gap_sign.start_ns < least(phase_stretch.first_ns, phase_stretch.layer_ns), true)
),

-- A batch is drawn at random where nothing else brings one.
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

-- Values read back or averaged in place before a batch is fetched belong to the batch before.
sign_and_log as (
    select
        *,
        max(end_ns) filter (
            where not is_loaded and coalesce(start_ns < fetching_ns, true)
            and (kind = 'read' or kind = 'update' and same_name_count > 2)
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
