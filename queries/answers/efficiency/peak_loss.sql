-- The observed time split into parts, from useful arithmetic at peak speed to idle time.
--
-- Each instant of a device is in exactly one part, so the parts add up to the observed time to the nanosecond. If
-- several events run, computation counts before communication, and communication before copies.
--
-- The time of a matrix product is split in two. The time of its FLOP at the peak of its unit and precision is useful,
-- or recomputed (checkpointing, and the product repeated by attention's backward). The remaining time is inefficiency.
-- The time of other work is split by the least time of its bytes and arithmetic. For causal attention, only the pairs
-- within the mask are useful.
--
-- A step or phase has the work it launched and the idle time while the GPU waited for it. Work launched before the
-- trace is in no step. The definition of useful FLOP follows Chowdhery et al., "PaLM", 2022, appendix B.
--
-- :param by VARCHAR in (run, step, phase) = 'run'
--                               one set of parts per rank and device, and per step or phase if grouped by them
-- :param rank BIGINT = NULL     only this rank
-- :param device BIGINT = NULL   only this device
-- :param step BIGINT = NULL     only work of this step
-- :param phase PHASE = NULL     only work of this phase
-- :reads kernel_roofline, idle_part
-- :column rank RANK
-- :column device DEVICE         -1 without a device
-- :column step STEP             NULL if not grouped by step, or outside every step
-- :column phase PHASE           NULL if not grouped by phase, or unknown
-- :column part VARCHAR          useful, recompute, matrix_inefficiency, other_compute_ideal,
--                               other_compute_inefficiency, copies, exposed_communication, unmodelled (computation with
--                               unknown FLOP or bytes), launched_before (computation launched before the trace) or idle
-- :column ns BIGINT             time of the part
-- :column pct DOUBLE            share of the row's observed time

-- one row per GPU event with time of its own: the useful, recomputed, ideal and remaining time
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
        -- The event's own time as a share of its duration.
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

-- one row per part of an event, or per idle part
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
