-- A dense gradient of an embedding: backward and the optimizer process the whole table, although a batch uses a few
-- rows.
--
-- Condition: `aten::embedding_dense_backward` fills a table with zeros. Bound: the fill takes no time. The passes of
-- zero_grad, clipping and the optimizer over the table also take no time: for each single-tensor op, the longest calls,
-- as many as there are tables, because a slow table is taken to be the largest parameter. Ops on lists of parameters
-- (`_foreach_`, `_fused_`) stay, because the table's part is unknown. Source: torch.nn.Embedding, `sparse` (with
-- SparseAdam, SGD and Adagrad); `embedding_dense_backward_cpu` in aten/src/ATen/native/Embedding.cpp and the CUDA
-- counterpart fill the whole table.
--
-- :reads cpu_event, name_info, gpu_event
-- :only_with name_info where name = 'aten::embedding_dense_backward'
-- :finding passes over whole embedding tables, most of it {name}
-- :remedy Pass sparse=True to nn.Embedding and update it with torch.optim.SparseAdam or SGD; or make the table smaller,
--     tie it to the output layer, or freeze it.
with dense_backward as (
    -- One row per call that makes a dense gradient, one call per table.
    select
        event_id,
        track_id,
        start_ns,
        end_ns
    from cpu_event
    where
        rank = $rank
        and step = $step
        and name in (
            select name_info.name from name_info
            where name_info.rank = $rank and name_info.name = 'aten::embedding_dense_backward'
        )
),

-- One row per op of the step, with the phase and whether the op is outermost.
op_of_step as (
    select
        cpu_event.event_id,
        cpu_event.track_id,
        cpu_event.start_ns,
        cpu_event.end_ns,
        cpu_event.phase,
        cpu_event.name,
        around.op_id is null as is_outermost
    from cpu_event
    left join cpu_event as around on cpu_event.rank = around.rank and cpu_event.parent_id = around.event_id
    where cpu_event.rank = $rank and cpu_event.step = $step and cpu_event.category = 'cpu_op'
),

-- One row per fill of a whole table. `embedding_dense_backward` contains no other fills.
fill as (
    select op_of_step.* exclude (phase, is_outermost)
    from op_of_step
    asof inner join dense_backward
        on op_of_step.track_id = dense_backward.track_id and op_of_step.start_ns >= dense_backward.start_ns
    where op_of_step.name = 'aten::fill_' and op_of_step.start_ns < dense_backward.end_ns
),

-- One row per update or norm of a single tensor. `place` ranks the calls of each op by duration.
pass as (
    select
        op_of_step.* exclude (phase, is_outermost),
        row_number() over (
            partition by op_of_step.phase, op_of_step.name
            order by op_of_step.end_ns - op_of_step.start_ns desc, op_of_step.event_id
        ) as place
    from op_of_step
    where
        op_of_step.phase in ('optimizer', 'zero_grad', 'clipping')
        and (
            is_update_arithmetic(op_of_step.name)
            or is_norm_op(op_of_step.name)
            or regexp_matches(op_of_step.name, '^aten::(sqrt|zero|fill)_?$')
        )
        and op_of_step.is_outermost
),

spared_op as (
    select * from fill
    union all
    select * exclude (place)
    from pass
    where place <= (select count(*) from dense_backward)
)

select
    event_id,
    'host' as effect,
    track_id,
    start_ns,
    end_ns,
    end_ns - start_ns as saved_ns,
    name
from spared_op
union all
select
    gpu_event.event_id,
    'work' as effect,
    gpu_event.track_id,
    gpu_event.start_ns,
    gpu_event.end_ns,
    gpu_event.dur_ns as saved_ns,
    spared_op.name
from spared_op
inner join gpu_event on spared_op.event_id = gpu_event.op_id
where gpu_event.rank = $rank
order by event_id, effect
