-- Every python function that the trace's stacks name (`with_stack`), with the place where it is written.
--
-- The profiler writes `train.py(12): main`: the file, below the folder it was imported from, and the line at which the
-- function begins (of a generator that runs on, the line where it does). `is_user` leaves out torch, Triton, what
-- torch.compile writes (files named by a hash, torch/_inductor/codecache.py), and the modules of the standard library
-- that call other code, which tell nobody where to look.
--
-- :reads name_info
-- :column rank BIGINT       process rank
-- :column name VARCHAR      name of its events: `train.py(12): main`
-- :column file VARCHAR      the file, below the folder it was imported from where the trace leaves that out
-- :column line BIGINT       where the function begins
-- :column function VARCHAR  name of the function
-- :column is_user BOOLEAN   it is neither torch's nor among the parts of the standard library that call other code
with named as (
    select
        rank,
        name,
        regexp_extract(name, '^(.+\.py)\((\d+)\): (.*)$', ['file', 'line', 'function']) as part
    from name_info
    where category = 'python_function' and regexp_matches(name, '^.+\.py\(\d+\): ')
),

imported as (
    select
        *,
        regexp_replace(part.file, '^.*/(site|dist)-packages/', '') as module_file
    from named
)

select
    rank,
    name,
    part.file,
    try_cast(part.line as bigint) as line,
    part.function,
    not regexp_matches(module_file, '(^|/)(torch|triton|python\d?(\.\d+)?)/|(^|/)[a-z2-7]{2}/c[a-z2-7]{51}\.py$')
    and not regexp_matches(
        module_file,
        '^(abc|asyncio|codecs|collections|concurrent|contextlib|copy|dataclasses|enum|functools|importlib|inspect'
        || '|logging|multiprocessing|pickle|queue|re|runpy|selectors|threading|traceback|typing|warnings|weakref)'
        || '(\.py$|/)'
    ) as is_user
from imported
