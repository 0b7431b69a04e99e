-- Calls of the model, where modules are known: of the outermost module that takes most time, or, where the model was
-- placed on the ops, its passes.
--
-- No rows where that module takes less than half of the time of all outermost modules: it is one among others then.
--
-- :reads module_call, model_op, main_track
-- :column start_ns BIGINT  start of the call; of a placed model, of the first call of its pass
-- :column end_ns BIGINT    end of the call; of a placed model, of the last call of its pass
with model_call as (
    -- Calls of outermost modules; of a placed model, its passes.
    select
        module_call.track_id,
        module_call.module_key as part,
        module_call.start_ns,
        module_call.end_ns
    from module_call
    where module_call.parent_key is null and module_call.pass_number is null
    union all
    select
        module_call.track_id,
        'model' as part,
        min(module_call.start_ns) as start_ns,
        max(module_call.end_ns) as end_ns
    from module_call
    inner join model_op on module_call.module_key = model_op.module_key
    where module_call.pass_number is not null and not regexp_matches(model_op.type, 'Loss|Criterion')
    group by module_call.track_id, module_call.pass_number
),

-- The outermost module that takes most time, if that is at least half of the time of all of them.
main_part as (
    select part
    from model_call
    group by part
    qualify 2 * sum(end_ns - start_ns) >= sum(sum(end_ns - start_ns)) over ()
    order by sum(end_ns - start_ns) desc, part
    limit 1
)

select
    start_ns,
    end_ns
from model_call
where part in (select part from main_part) and track_id in (select track_id from main_track)
order by start_ns
