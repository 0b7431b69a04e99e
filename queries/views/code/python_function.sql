-- Every python function that the trace's stacks name (`with_stack`), with the place where it is written.
--
-- The profiler writes `train.py(12): main`: the file, below the folder it was imported from, and the line at which the
-- function begins (of a generator that runs on, the line where it does). `code_origin` decides whose code a file is. If
-- a rank shows no code of a user at all, such as a server of a library, the code of libraries counts as the user's.
--
-- :reads name_info
-- :column rank BIGINT       process rank
-- :column name VARCHAR      name of its events: `train.py(12): main`
-- :column file VARCHAR      the file, below the folder it was imported from where the trace leaves that out
-- :column line BIGINT       where the function begins
-- :column function VARCHAR  name of the function
-- :column origin VARCHAR    whose code it is: user, library, torch or standard
-- :column is_user BOOLEAN   it is the user's, or a library's in a rank without code of the user
with named as (
    select
        rank,
        name,
        regexp_extract(name, '^(.+\.py|<[^>]+>)\((\d+)\): (.*)$', ['file', 'line', 'function']) as part
    from name_info
    where category = 'python_function' and regexp_matches(name, '^(.+\.py|<[^>]+>)\(\d+\): ')
),

known as (
    select
        rank,
        name,
        part.file,
        try_cast(part.line as bigint) as line,
        part.function,
        code_origin(part.file) as origin
    from named
)

select
    *,
    origin = 'user' or (origin = 'library' and not bool_or(origin = 'user') over (partition by rank)) as is_user
from known
