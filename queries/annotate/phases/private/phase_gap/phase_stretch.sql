-- Starts and ends of the signs in each stretch of `phase_timeline`, by kind.
--
-- :reads gap_sign, trained_span, optimizer_span
-- :column step_start_ns BIGINT  start of the step
-- :column stretch HUGEINT       the stretch, as in `phase_timeline`
-- :column optimizer_ns BIGINT   start of an optimizer's first update, or of the ops on lists of tensors right before
--                               it; NULL if absent
-- :column updated_ns BIGINT     end of an optimizer's last update; NULL if absent
-- :column first_ns BIGINT       start of the first op with a backward node, or of an enclosing op; NULL if absent
-- :column known_ns BIGINT       end of the last op with a backward node; NULL if absent
-- :column layer_ns BIGINT       start of the first layer after `updated_ns`; NULL without one
-- :column modelled_ns BIGINT    end of the last layer, activation, softmax or sigmoid; NULL without one
-- :column output_ns BIGINT      end of the last softmax or sigmoid; NULL without one
-- :column read_ns BIGINT        end of the last op after `known_ns` that reads a value back; NULL if absent
-- :column seed_ns BIGINT        start of the last sign if it creates a tensor, as backward does for the gradient of the
--                               loss; NULL if absent
with last_other_sign as (
    -- The last sign before an optimizer's updates, except ops on lists of tensors.
    select
        gap_sign.step_start_ns,
        gap_sign.stretch,
        max(gap_sign.start_ns) as start_ns
    from gap_sign
    inner join optimizer_span
        on gap_sign.step_start_ns = optimizer_span.step_start_ns and gap_sign.stretch = optimizer_span.stretch
    where gap_sign.start_ns < optimizer_span.start_ns and gap_sign.kind != 'list'
    group by gap_sign.step_start_ns, gap_sign.stretch
)

select
    gap_sign.step_start_ns,
    gap_sign.stretch,
    least(
        any_value(optimizer_span.start_ns),
        min(gap_sign.start_ns) filter (
            where gap_sign.kind = 'list' and gap_sign.start_ns > coalesce(last_other_sign.start_ns, 0)
            and gap_sign.start_ns < optimizer_span.start_ns
        )
    ) as optimizer_ns,
    any_value(optimizer_span.end_ns) as updated_ns,
    any_value(trained_span.first_ns) as first_ns,
    any_value(trained_span.known_ns) as known_ns,
    min(gap_sign.start_ns) filter (
        where gap_sign.kind = 'layer' and gap_sign.start_ns >= coalesce(optimizer_span.end_ns, 0)
    ) as layer_ns,
    max(gap_sign.end_ns) filter (where gap_sign.kind in ('layer', 'activation', 'output')) as modelled_ns,
    max(gap_sign.end_ns) filter (where gap_sign.kind = 'output') as output_ns,
    max(gap_sign.end_ns) filter (
        where gap_sign.kind = 'read' and gap_sign.start_ns >= coalesce(trained_span.known_ns, 0)
    ) as read_ns,
    case
        when max(gap_sign.start_ns) filter (where gap_sign.kind = 'create') = max(gap_sign.start_ns)
            then max(gap_sign.start_ns)
    end as seed_ns
from gap_sign
left join trained_span
    on gap_sign.step_start_ns = trained_span.step_start_ns and gap_sign.stretch = trained_span.stretch
left join optimizer_span
    on gap_sign.step_start_ns = optimizer_span.step_start_ns and gap_sign.stretch = optimizer_span.stretch
left join last_other_sign
    on gap_sign.step_start_ns = last_other_sign.step_start_ns and gap_sign.stretch = last_other_sign.stretch
group by gap_sign.step_start_ns, gap_sign.stretch
