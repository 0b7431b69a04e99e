-- Places in the model.

-- Whether a module path is that of a module or of one in it; always, if no module is asked for.
create or replace macro in_module(path, module) as
module is null or path = module or starts_with(path, module || '.');
