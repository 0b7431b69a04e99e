-- The event category in the project's spelling, for all profiler versions and vendors. Kineto's most frequent
-- categories are returned directly. Other spellings are looked up: whole words first, then endings.
create or replace temp macro category_of(spelling) as
case
    when
        lower(spelling) in (
            'cpu_op', 'python_function', 'kernel', 'cuda_runtime', 'ac2g', 'fwdbwd', 'cuda_driver', 'user_annotation',
            'gpu_memcpy', 'gpu_memset', 'cpu_instant_event'
        )
        then lower(spelling)
    else coalesce(
        map_extract_value((select categories from known_spelling), lower(spelling)),
        list_filter(
            (select endings from known_spelling), lambda known: ends_with(lower(spelling), known.ending)
        )[1].category,
        lower(spelling)
    )
end
