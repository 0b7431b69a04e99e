-- Names of events with a duration: a short name, and for GPU work the class, unit and precision.
--
-- The table has one row per category and name. Join on rank, category and name.
--
-- Classes are computation, communication and memory. Copies and memsets have the class memory regardless of name. The
-- rules are data (`rules/kernel_*.csv`), and the first matching rule counts; for classes, the user's own rules
-- (`kernel_class`) come first. Rules match `symbol`, the function's name with namespaces, without return type, template
-- arguments and parameters. A word in an argument's type therefore has no effect.
--
-- The name of a matrix product, convolution or attention kernel shows the unit, matrix units (tensor cores) or vector
-- units, and the precision. Libraries encode operand types and the instruction in the name. CUTLASS, cuBLAS and cuDNN:
-- `s1688`, `s16816` after a type; without a type, TF32 (since Ampere). `simt`, `sgemm`: FP32 on vector units. xmma:
-- types of both operands. nvjet: a letter. Tensile: types and `MI16x16x1`, the matrix instruction. `=` in the rules
-- takes the precision from the op's types.
--
-- Mangled names are parsed as in the Itanium C++ ABI: `_ZN`, then each part with its length before it.
--
-- :reads event, kernel_class, kernel_classes, kernel_short_names, kernel_units
-- :column category VARCHAR     kind of event; NULL if absent
-- :column name VARCHAR         the event's name
-- :column short_name VARCHAR   name without return type, namespaces, template arguments, tile sizes and file paths
-- :column class KERNEL_CLASS   NULL for other events
-- :column is_blocking BOOLEAN  a runtime or driver call that returns when the GPU is done
-- :column unit VARCHAR         unit of a matrix product kernel: matrix (tensor cores) or vector; NULL for other events
-- :column precision VARCHAR    precision of a matrix product kernel, fp64, fp32, tf32, bf16, fp16, fp8, fp4 or int8;
--                              NULL if not in the name
with recursive event_name as (
    select distinct
        category,
        name
    from event
    where dur_ns is not null
),

-- Mangled names, with the unparsed rest and the symbol parsed up to there.
mangled_name (name, rest, symbol, last_part) as (
    select distinct
        name,
        regexp_replace(name, '^_ZN?[KVrO]*', ''),
        '',
        ''
    from event_name
    where category = 'kernel' and regexp_matches(name, '^_ZN?[KVrO]*\d')
    union all
    select
        name,
        substr(rest, length(digits) + length(part) + 1),
        symbol || case when symbol = '' then '' else '::' end || part,
        part
    from (
        select
            *,
            regexp_extract(rest, '^\d{1,5}') as digits,
            substr(rest, length(digits) + 1, digits::bigint) as part
        from mangled_name
        where regexp_matches(rest, '^\d')
    ) as step
    where length(part) = digits::bigint and part != ''
),

-- Mangled names with the complete symbol.
demangled_name as (
    select
        name,
        arg_max(symbol, length(symbol)) as symbol
    from mangled_name
    group by name
),

-- Kernels with two names: without return type and anonymous namespaces (`plain`), and the function's name alone
-- (`symbol`).
kernel as (
    select
        event_name.name,
        regexp_replace(
            replace(event_name.name, '(anonymous namespace)::', ''), '^(void\s+|std::enable_if<.*?>::type\s+)', ''
        ) as plain,
        coalesce(demangled_name.symbol, trim(regexp_extract(plain, '^[^<(]*'))) as symbol
    from event_name
    left join demangled_name on event_name.name = demangled_name.name
    where event_name.category = 'kernel'
),

-- Class of kernels matching a built-in rule.
class_by_rule as (
    select
        kernel.name,
        arg_min(rule.class, rule.position) as class
    from kernel
    inner join kernel_classes as rule
        -- CASE, not AND: the database may reorder AND, and a pattern costs a hundred times as much as the word.
        on case when contains(lower(kernel.symbol), rule.word) then regexp_matches(kernel.symbol, rule.pattern) end
    group by kernel.name
),

-- Rules for units, one row per alternative word of a rule.
unit_rule as (
    select
        unnest(string_split(words, '|')) as word,
        pattern,
        unit,
        precision,
        position
    from kernel_units
),

-- Unit and precision of kernels matching a rule.
unit_by_rule as (
    select
        kernel.name,
        arg_min({'unit': rule.unit, 'precision': rule.precision}, rule.position) as found
    from kernel
    inner join unit_rule as rule
        on case when contains(kernel.name, rule.word) then regexp_matches(kernel.name, rule.pattern) end
    group by kernel.name
),

-- Class of kernels matching the user's own rules.
class_by_user as (
    select
        kernel.name,
        arg_min(kernel_class.class, kernel_class.position) as class
    from kernel
    inner join kernel_class on regexp_matches(kernel.name, kernel_class.pattern)
    group by kernel.name
),

-- Short names of kernels matching a rule.
short_by_rule as (
    select
        name,
        regexp_replace(plain, '(?s)^.*?' || pattern || '.*$', short) as short
    from (
        select
            kernel.name,
            kernel.plain,
            arg_min(rule.pattern, rule.position) as pattern,
            arg_min(rule.short, rule.position) as short
        from kernel
        inner join kernel_short_names as rule
            on case when contains(kernel.plain, rule.word) then regexp_matches(kernel.plain, rule.pattern) end
        group by kernel.name, kernel.plain
    ) as best
),

-- Short names of all kernels. Tile sizes are removed, because they do not describe the kernel's purpose. Stages,
-- alignments and the machine are also removed from names of GEMM libraries.
short_kernel as (
    select
        name,
        array_to_string(
            list_filter(
                string_split(base, '_'),
                lambda part: part = '' or not (
                    regexp_full_match(part, 'kernel|\d+x\d+(x\d+)*')
                    or is_library and regexp_full_match(
                        part,
                        'sm\d+\w?|kepler|maxwell|pascal|volta|turing|ampere|hopper|blackwell|cutlass|cudnn|cublas|5x|80'
                        || '|tilesize\w+|stages?\d*|warpsize\w+|warpgroupsize\w+|sliced\w+|ldg\d+|f2f|align\w*\d+'
                        || '|execute|e?t\d+x\d+\w*|m\d+x\d+x\d+|cga\w+|sched\w+|tma\w*|dynBatch|\d+dp\d+b'
                        || '|s\d|g1|tensor\d+x\d+x\d+|t\dr\ds\d|trt|infer|train|v\d+'
                    )
                )
            ), '_'
        ) as short
    from (
        select
            kernel.name,
            -- For a function called `kernel`, the namespace is more informative.
            coalesce(
                short_by_rule.short,
                regexp_extract(kernel.symbol, '(?:\w+::)?(?:[Kk]ernel\d?|\w*_kernel_agent)$|[^:]*$')
            ) as base,
            regexp_matches(base, 'gemm|bmm|cudnn|xmma|cutlass|conv|dgrad|wgrad|fprop') as is_library
        from kernel
        left join short_by_rule on kernel.name = short_by_rule.name
    ) as part_of
)

select
    event_name.category,
    event_name.name,
    coalesce(nullif(case
        when event_name.category = 'kernel' then trim(short_kernel.short, '_')
        when event_name.category = 'cpu_op'
            then
                regexp_replace(
                    regexp_replace(event_name.name, '^autograd::engine::evaluate_function: (\w+::)*', 'autograd: '),
                    '^(\w+::)+',
                    ''
                )
        when event_name.category = 'python_function' then regexp_replace(
            regexp_replace(event_name.name, '^<built-in (?:method|function) (\w+).*', 'built-in \1'),
            '^(nn\.Module: |.*/)', ''
        )
    end, ''), event_name.name) as short_name,
    case
        when event_name.category in ('gpu_memcpy', 'gpu_memset') then 'memory'
        when event_name.category = 'kernel' then coalesce(class_by_user.class, class_by_rule.class, 'computation')
    end as class,
    is_blocking_call(event_name.category, event_name.name) as is_blocking,
    unit_by_rule.found.unit,
    nullif(unit_by_rule.found.precision, '=') as precision
from event_name
left join short_kernel on event_name.name = short_kernel.name and event_name.category = 'kernel'
left join class_by_rule on event_name.name = class_by_rule.name and event_name.category = 'kernel'
left join unit_by_rule on event_name.name = unit_by_rule.name and event_name.category = 'kernel'
left join class_by_user on event_name.name = class_by_user.name and event_name.category = 'kernel'
order by event_name.category, event_name.name
