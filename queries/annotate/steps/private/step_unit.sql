-- Calls of the model, if modules are known: calls of the outermost module with most time, or passes of a model aligned
-- with the ops.
--
-- Empty if the module has less than half of the time of all outermost modules: it is then only one module among
-- several.
--
-- :reads module_call, model_op, main_track
-- :column start_ns BIGINT  start of the call; for an aligned model, of the first call of the pass
-- :column end_ns BIGINT    end of the call; for an aligned model, of the last call of the pass
with model_call as (
    -- Calls of outermost modules; for an aligned model, its passes.
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
    where module_call.pass_number is not null and not is_loss_type(model_op.type)
    group by module_call.track_id, module_call.pass_number
),

-- The outermost module with most time, if it has at least half of the time of all outermost modules.
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
