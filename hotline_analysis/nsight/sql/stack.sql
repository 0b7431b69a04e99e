-- Stacks of CPU samples, with the frames that name code.
--
-- A frame of python names the function and the file. Nsight Systems shows such a frame where it knows the code behind
-- the interpreter: the file of the function stands in place of the library, or the symbol is CPython's own
-- (`py::train:/home/me/train.py`; Python documentation, "Python support for the Linux perf profiler"). Of the other
-- frames, the innermost of each run of frames of one library counts: the function called in this library.
with named_frame as (
    select
        frame_row.id,
        frame_row."stackDepth" as depth,
        symbol.value as symbol,
        library.value as library,
        regexp_extract(symbol.value, '^py::(.+):([^:]+)$', ['function', 'file']) as perf,
        regexp_extract(library.value, '^(.*\.py)(?::(\d{1,9}))?$', ['file', 'line']) as source,
        coalesce(frame_row.unresolved, 0) != 0 as is_unresolved
    from frame_row
    left join string_value as symbol on frame_row.symbol = symbol.id
    left join string_value as library on frame_row."module" = library.id
    where frame_row.id is not null
),

frame as (
    select
        id,
        depth,
        coalesce(perf.function != '' or source.file != '', false) as is_python,
        coalesce(
            nullif(perf.function, ''), case when not is_unresolved then nullif(symbol, '') end,
            '[' || nullif(file_name(library), '') || ']', '[unknown]'
        ) as function,
        coalesce(nullif(perf.file, ''), nullif(source.file, ''), nullif(library, '')) as file,
        try_cast(nullif(source.line, '') as bigint) as line
    from named_frame
),

-- Python frames, and the innermost frame of each run of frames of one library.
kept_frame as (
    select *
    from frame
    qualify is_python or coalesce(file is distinct from lag(file) over (partition by id order by depth), true)
),

sample as (
    select
        id,
        arg_min(function, depth) as name,
        to_json(
            list(struct_pack("function" := function, file := file, line := line, is_python := is_python) order by depth)
        ) as stack
    from kept_frame
    group by id
)

select
    id,
    md5_number(stack::varchar) as stack_id,
    name,
    stack
from sample
