-- Modules of the model.

-- Whether a path is the module or inside it; always true if `module` is NULL.
create or replace macro in_module(path, module) as
module is null or path = module or starts_with(path, module || '.');

-- The longest event of each module and pass (`longest`): the longest GPU work, or the longest CPU event if the module
-- launched no work. Events of inner modules do not count. The max() over several rows is the longest event overall, and
-- `-longest.minus_event_id` is its id.
create or replace macro longest_in_module(labels, events, asked_rank, asked_step) as table
    select
        label.rank,
        label.module_id,
        label.pass,
        max({
            'is_gpu': event.category in ('kernel', 'gpu_memcpy', 'gpu_memset'),
            'dur_ns': event.dur_ns,
            'minus_rank': -label.rank,
            'minus_event_id': -label.event_id
        }) as longest
    from query_table(labels) as label
    inner join query_table(events) as event on label.rank = event.rank and label.event_id = event.event_id
    where
        label.module_id is not null
        and is_asked(asked_rank, label.rank)
        and is_asked(asked_step, label.step)
        and event.dur_ns > 0
    group by label.rank, label.module_id, label.pass;
