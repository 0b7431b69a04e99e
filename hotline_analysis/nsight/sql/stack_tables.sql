-- The stacks of CPU samples: each different stack once, and the stack of each sample.
create or replace temp table stack (stack_id uhugeint primary key, name varchar, stack json);

create or replace temp table sample_stack (id bigint, stack_id uhugeint)
