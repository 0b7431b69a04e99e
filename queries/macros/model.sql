-- Places in the model.

-- Whether a module path is that of a module or of one in it; always, if no module is asked for.
create or replace macro in_module(path, module) as
module is null or path = module or starts_with(path, module || '.');

-- For each module and pass, its longest event (`longest`): of GPU work if it launched any, else on the CPU. Events of
-- the modules in it do not count. The largest of several is the longest of all; `-longest.minus_event_id` is its id.
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
