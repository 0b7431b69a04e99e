-- Every python function in the trace's stacks (`with_stack`), with its location in the code.
--
-- The profiler writes `train.py(12): main`: the file below the folder of the import, and the first line of the function
-- (for a resumed generator, the current line). `code_origin` decides on the origin of a file. If a rank has no user
-- code, such as a server of a library, the code of libraries counts as the user's.
--
-- :reads name_info
-- :only_with name_info where category = 'python_function'
-- :column name VARCHAR      name of the function's events: `train.py(12): main`
-- :column file VARCHAR      file, below the folder of the import if the trace omits the folder
-- :column line BIGINT       first line of the function
-- :column function VARCHAR  name of the function
-- :column origin VARCHAR    origin of the code: user, library, torch or standard
-- :column is_user BOOLEAN   the function is the user's, or a library's on a rank without user code
with function_name as (
    select
        name,
        regexp_extract(name, '^(.+\.py|<[^>]+>)\((\d+)\): (.*)$', ['file', 'line', 'function']) as part
    from name_info
    where category = 'python_function' and regexp_matches(name, '^(.+\.py|<[^>]+>)\(\d+\): ')
),

located_function as (
    select
        name,
        part.file,
        try_cast(part.line as bigint) as line,
        part.function,
        code_origin(part.file) as origin
    from function_name
)

select
    *,
    origin = 'user' or (origin = 'library' and not bool_or(origin = 'user') over ()) as is_user
from located_function
order by name
