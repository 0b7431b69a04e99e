-- Where the peak of the GPU goes: the observed time, from useful arithmetic at peak speed to idle time, without a rest.
--
-- Each moment of a device is in exactly one part, so the parts add up to the observed time to the nanosecond. Where
-- several events run, computation counts before communication, and that before copies. The time of a matrix product is
-- cut into the time that its FLOP take at the peak of the unit and precision that it runs in, which is useful (or
-- repeated: work of checkpointing, and the product that attention's backward makes once more), and the rest, which is
-- inefficiency. The time of other work is cut likewise by the time that its bytes and arithmetic take at best. Causal
-- attention is useful for the pairs that it keeps. A step or phase has the work that it launched, and the idle time
-- while it kept the GPU waiting; work launched before the trace is in no step. Definitions: Chowdhery et al., "PaLM",
-- 2022, appendix B, for useful FLOP.
--
-- :param by VARCHAR in (run, step, phase) = 'run'
--                               what the parts of a row add up to
-- :param rank BIGINT = NULL     only this rank
-- :param device BIGINT = NULL   only this device
-- :param step BIGINT = NULL     only work of this step
-- :param phase PHASE = NULL     only work of this phase
-- :reads kernel_roofline, idle_part
-- :column rank BIGINT           process rank
-- :column device BIGINT         device number; -1 when the events name none
-- :column step BIGINT           the step; NULL if not asked for, or outside every step
-- :column phase VARCHAR         the phase; NULL if not asked for, or unknown
-- :column part VARCHAR          useful, recompute, matrix_inefficiency, other_compute_ideal,
--                               other_compute_inefficiency, copies, exposed_communication, unmodelled (computation
--                               whose FLOP or bytes are not known), launched_before (computation launched before the
--                               trace began) or idle
-- :column ns BIGINT             its time
-- :column pct DOUBLE            its share of the row's observed time
with event_part as (
    select
        rank,
        device,
        if($by = 'step', step, null) as step,
        if($by = 'phase', phase, null) as phase,
        owned_ns,
        case
            when class = 'memory' then 'copies'
            when class = 'communication' then 'exposed_communication'
            when is_before then 'launched_before'
            when roofline_ns is null then 'unmodelled'
            when has_products then 'matrix_inefficiency'
            else 'other_compute_inefficiency'
        end as rest,
        -- Of the event's own time, as much as it is of its duration.
        owned_ns / nullif(dur_ns, 0)::double as part_owned,
        case
            when rest = 'matrix_inefficiency' and matrix_flop > 0
                then least(owned_ns, floor(matrix_ns * part_owned * model_flop / matrix_flop))::bigint
            else 0
        end as useful_ns,
        case
            when rest = 'matrix_inefficiency'
                then least(owned_ns, floor(matrix_ns * part_owned))::bigint - useful_ns
            else 0
        end as recompute_ns,
        case
            when rest = 'other_compute_inefficiency'
                then least(owned_ns, floor(roofline_ns * part_owned))::bigint
            else 0
        end as ideal_ns
    from kernel_roofline
    where
        owned_ns > 0
        and is_asked($rank, rank)
        and is_asked($device, device)
        and is_asked($step, step)
        and is_asked($phase, phase)
),

part as (
    select
        rank,
        device,
        step,
        phase,
        unnest(['useful', 'recompute', 'other_compute_ideal', rest]) as part,
        unnest([useful_ns, recompute_ns, ideal_ns, owned_ns - useful_ns - recompute_ns - ideal_ns]) as ns
    from event_part
    union all
    select
        rank,
        device,
        if($by = 'step', step, null),
        if($by = 'phase', phase, null),
        'idle',
        end_ns - start_ns
    from idle_part
    where
        is_asked($rank, rank)
        and is_asked($device, device)
        and is_asked($step, step)
        and is_asked($phase, phase)
)

select
    rank,
    device,
    step,
    phase,
    part,
    sum(ns)::bigint as ns,
    100.0 * sum(ns) / sum(sum(ns)) over (partition by rank, device, step, phase) as pct
from part
group by rank, device, step, phase, part
having sum(ns) > 0
order by
    rank,
    device,
    step nulls last,
    phase nulls last,
    list_position(
        [
            'useful', 'recompute', 'matrix_inefficiency', 'other_compute_ideal', 'other_compute_inefficiency', 'copies',
            'exposed_communication', 'launched_before', 'unmodelled', 'idle'
        ],
        part
    )
