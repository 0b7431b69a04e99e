-- Modules of the model.

-- Whether a path is the module or inside it; always true if `module` is NULL.
create or replace macro in_module(path, module) as
module is null or path = module or starts_with(path, module || '.');

-- The longest own event of a module, from a row of `module_time`, as a struct whose largest one is the longest event of
-- several rows: GPU work before other events, then the duration, the rank and the event. NULL without an event.
create or replace macro longest_own(of_rank, event_id, dur_ns, is_gpu) as
case
    when event_id is not null
        then
            {'is_gpu': is_gpu, 'dur_ns': dur_ns, 'minus_rank': -of_rank, 'minus_event_id': -event_id}
end;
