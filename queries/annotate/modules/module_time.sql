-- Time of each module per step and pass: self time, and total time including inner modules.
--
-- Self time is the time of the events labelled with the module: self time on the CPU, duration on the GPU. Totals add
-- the modules below in the tree: a module without events of its own has a row if an inner module has events. A kernel
-- shared by several modules counts for each module with its part.
--
-- :reads label, timed, nesting, model_op, shared_kernel
-- :only_with model_op
-- :column step STEP            NULL outside every step
-- :column module_id BIGINT     the module
-- :column pass VARCHAR         forward, backward or recompute
-- :column cpu_self_ns BIGINT   CPU self time of the module's events
-- :column cpu_total_ns BIGINT  CPU self time including all modules below
-- :column gpu_self_ns BIGINT   duration of the module's own GPU work
-- :column gpu_total_ns BIGINT  duration of GPU work including all modules below
-- :column longest_id BIGINT    the module's longest own event, a GPU event if possible; NULL if only modules below have
--                              events
-- :column longest_ns BIGINT    duration of this event; NULL without the event
-- :column longest_is_gpu BOOLEAN  whether the event is GPU work; NULL without the event
with recursive module_part as (
    -- Each module, paired with itself and each enclosing module.
    select
        module_id,
        module_id as whole_id
    from model_op
    union all
    select
        module_part.module_id,
        model_op.parent_id
    from module_part
    inner join model_op on module_part.whole_id = model_op.module_id
    where model_op.parent_id is not null
),

-- Events with self time on the CPU, or duration on the GPU.
event_time as (
    select
        event_id,
        self_ns as cpu_ns,
        0::bigint as gpu_ns,
        end_ns - start_ns as dur_ns,
        false as is_gpu
    from nesting
    union all
    select
        event_id,
        0,
        end_ns - start_ns,
        end_ns - start_ns,
        true
    from timed
    where category in ('kernel', 'gpu_memcpy', 'gpu_memset')
),

-- Time of events labelled with a module.
labelled_time as (
    select
        label.step,
        label.module_id,
        label.pass,
        sum(event_time.cpu_ns) as cpu_ns,
        sum(event_time.gpu_ns) as gpu_ns,
        max({
            'is_gpu': event_time.is_gpu,
            'dur_ns': event_time.dur_ns,
            'minus_event_id': -event_time.event_id
        }) filter (where event_time.dur_ns > 0) as longest
    from label
    inner join event_time on label.event_id = event_time.event_id
    where label.module_id is not null
    group by label.step, label.module_id, label.pass
),

-- The same rows, plus the time of shared kernels, moved from the launching module to the other module.
time_part as (
    select * from labelled_time
    union all
    select
        label.step,
        shared_kernel.module_id,
        label.pass,
        0,
        shared_kernel.gpu_ns,
        null
    from shared_kernel
    inner join label on shared_kernel.event_id = label.event_id
    union all
    select
        label.step,
        label.module_id,
        label.pass,
        0,
        -shared_kernel.gpu_ns,
        null
    from shared_kernel
    inner join label on shared_kernel.event_id = label.event_id
),

-- Self time of each module per step and pass.
own_time as (
    select
        step,
        module_id,
        pass,
        sum(cpu_ns) as cpu_ns,
        sum(gpu_ns) as gpu_ns,
        max(longest) as longest
    from time_part
    group by step, module_id, pass
),

-- The same times with all modules below, and the longest event of the module itself.
whole_time as (
    select
        own_time.step,
        module_part.whole_id as module_id,
        own_time.pass,
        sum(case when module_part.module_id = module_part.whole_id then own_time.cpu_ns else 0 end) as cpu_self_ns,
        sum(own_time.cpu_ns) as cpu_total_ns,
        sum(case when module_part.module_id = module_part.whole_id then own_time.gpu_ns else 0 end) as gpu_self_ns,
        sum(own_time.gpu_ns) as gpu_total_ns,
        max(own_time.longest) filter (where module_part.module_id = module_part.whole_id) as longest
    from module_part
    inner join own_time on module_part.module_id = own_time.module_id
    group by own_time.step, module_part.whole_id, own_time.pass
)

select
    step,
    module_id,
    pass,
    cpu_self_ns::bigint as cpu_self_ns,
    cpu_total_ns::bigint as cpu_total_ns,
    gpu_self_ns::bigint as gpu_self_ns,
    gpu_total_ns::bigint as gpu_total_ns,
    -longest.minus_event_id as longest_id,
    longest.dur_ns as longest_ns,
    longest.is_gpu as longest_is_gpu
from whole_time
order by step, module_id, pass
