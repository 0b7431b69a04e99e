-- Steps, phases and modules as tracks on each CPU thread.
--
-- Spans of one `kind` and thread are nested (modules, by depth) or do not overlap. The GPU side comes from
-- `gpu_annotation`.
--
-- :param rank BIGINT = NULL    only this rank
-- :reads step, phase_span, module_span, model_op
-- :column rank RANK
-- :column track_id BIGINT      thread; NULL for steps without an event
-- :column kind VARCHAR         step, phase or module
-- :column place BIGINT         number among the spans of this kind and thread, by start, from 0
-- :column depth BIGINT         depth of the module; 0 for steps and phases
-- :column start_ns BIGINT      start
-- :column end_ns BIGINT        end
-- :column name VARCHAR         name of the step, phase or module
-- :column path VARCHAR         path of the module; NULL for steps and phases
-- :column type VARCHAR         class of the module; NULL for steps and phases, and if unknown
-- :column pass VARCHAR         forward, backward or recompute; NULL for steps and phases
-- :column evidence VARCHAR     source of the step, phase or module
with span as (
    select
        rank,
        track_id,
        'step' as kind,
        0::bigint as depth,
        start_ns,
        end_ns,
        'step ' || step as name,
        null::varchar as path,
        null::varchar as type,
        null::varchar as pass,
        evidence
    from step
    where is_asked($rank, rank)
    union all
    select
        rank,
        track_id,
        'phase',
        0,
        start_ns,
        end_ns,
        phase,
        null,
        null,
        null,
        evidence
    from phase_span
    where is_asked($rank, rank)
    union all
    select
        module_span.rank,
        module_span.track_id,
        'module',
        module_span.depth,
        module_span.start_ns,
        module_span.end_ns,
        model_op.name,
        model_op.path,
        model_op.type,
        module_span.pass,
        module_span.evidence
    from module_span
    inner join model_op on module_span.rank = model_op.rank and module_span.module_id = model_op.module_id
    where is_asked($rank, module_span.rank)
)

select
    rank,
    track_id,
    kind,
    row_number() over (
        partition by rank, kind, track_id order by start_ns, depth, end_ns, path nulls first, pass nulls first
    ) - 1 as place,
    depth,
    start_ns,
    end_ns,
    name,
    path,
    type,
    pass,
    evidence
from span
order by rank, kind, track_id nulls first, place
