-- One row per category and name of events with a duration: what the name says. Join on rank, category and name.
--
-- Every name of an event that takes time: a short form for people, and of GPU work what it does and on which unit.
--
-- Classes are computation, communication and memory. Copies and memsets are memory because of their category, whatever
-- they are called. The rules are data (`rules/kernel_*.csv`), and the first one that matches counts; for classes, the
-- user's own (`kernel_class`) come first. They look at `symbol`: the function's name with its namespaces, without
-- return type, template arguments and parameters, so that a word in an argument's type decides nothing.
--
-- A kernel of a matrix product, a convolution or attention tells by its name whether it runs on matrix units (tensor
-- cores) or on the vector units, and in which precision: the libraries put the types of the operands and the
-- instruction there (CUTLASS, cuBLAS and cuDNN: `s1688`, `s16816` with a type in front, alone it is TF32 and since
-- Ampere; `simt`, `sgemm`: FP32 on vector units; xmma: types of both operands; nvjet: a letter; Tensile: types and
-- `MI16x16x1`, the matrix instruction). `=` in the rules leaves the precision to the types of the op.
--
-- Mangled names are taken apart as the Itanium C++ ABI says: `_ZN`, then each part after its length.
--
-- :reads event, kernel_class, kernel_classes, kernel_short_names, kernel_units
-- :column category VARCHAR     kind of event; NULL when it has none
-- :column name VARCHAR         the event's name
-- :column short_name VARCHAR   without return type, namespaces, template arguments, tile sizes and paths of files
-- :column class VARCHAR        of GPU work: computation, communication or memory; NULL for all else
-- :column is_blocking BOOLEAN  a call of the runtime or driver that returns when the GPU is done
-- :column unit VARCHAR         of a kernel of matrix products: matrix (tensor cores) or vector; NULL for all else
-- :column precision VARCHAR    of these, fp64, fp32, tf32, bf16, fp16, fp8, fp4 or int8; NULL where the name does not
--                              tell
with recursive names as (
    select distinct
        category,
        name
    from event
    where dur_ns is not null
),

-- Mangled names, with the part that is not read yet and the symbol so far.
mangled (name, rest, symbol, last_part) as (
    select distinct
        name,
        regexp_replace(name, '^_ZN?[KVrO]*', ''),
        '',
        ''
    from names
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
        from mangled
        where regexp_matches(rest, '^\d')
    ) as step
    where length(part) = digits::bigint and part != ''
),

-- Mangled names with their whole symbol.
demangled_name as (
    select
        name,
        arg_max(symbol, length(symbol)) as symbol
    from mangled
    group by name
),

-- Kernels: without return type and anonymous namespaces (`plain`), and the name of the function alone (`symbol`).
kernel as (
    select
        names.name,
        regexp_replace(
            replace(names.name, '(anonymous namespace)::', ''), '^(void\s+|std::enable_if<.*?>::type\s+)', ''
        ) as plain,
        coalesce(demangled_name.symbol, trim(regexp_extract(plain, '^[^<(]*'))) as symbol
    from names
    left join demangled_name on names.name = demangled_name.name
    where names.category = 'kernel'
),

-- The class of each kernel that a built-in rule matches.
class_by_rule as (
    select
        kernel.name,
        arg_min(rule.class, rule.position) as class
    from kernel
    inner join kernel_classes as rule
        -- not AND, which the database evaluates in an order of its own: a pattern costs a hundred times the word
        on case when contains(lower(kernel.symbol), rule.word) then regexp_matches(kernel.symbol, rule.pattern) end
    group by kernel.name
),

-- The rules on units, once for each of the words of which a name that matches has one.
unit_rule as (
    select
        unnest(string_split(words, '|')) as word,
        pattern,
        unit,
        precision,
        position
    from kernel_units
),

-- The unit and precision of each kernel that a rule matches.
unit_by_rule as (
    select
        kernel.name,
        arg_min({'unit': rule.unit, 'precision': rule.precision}, rule.position) as found
    from kernel
    inner join unit_rule as rule
        on case when contains(kernel.name, rule.word) then regexp_matches(kernel.name, rule.pattern) end
    group by kernel.name
),

-- The class of each kernel that the user's own rules match.
class_given as (
    select
        kernel.name,
        arg_min(kernel_class.class, kernel_class.position) as class
    from kernel
    inner join kernel_class on regexp_matches(kernel.name, kernel_class.pattern)
    group by kernel.name
),

-- Short names of the kernels that a rule matches.
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

-- Short names of all kernels. Sizes of tiles do not tell what a kernel does; nor do stages, alignments and the machine
-- in names of GEMM libraries.
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
            -- of a function called `kernel`, the namespace says more
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
    names.category,
    names.name,
    coalesce(nullif(case
        when names.category = 'kernel' then trim(short_kernel.short, '_')
        when names.category = 'cpu_op'
            then
                regexp_replace(
                    regexp_replace(names.name, '^autograd::engine::evaluate_function: (\w+::)*', 'autograd: '),
                    '^(\w+::)+',
                    ''
                )
        when names.category = 'python_function' then regexp_replace(
            regexp_replace(names.name, '^<built-in (?:method|function) (\w+).*', 'built-in \1'),
            '^(nn\.Module: |.*/)', ''
        )
    end, ''), names.name) as short_name,
    case
        when names.category in ('gpu_memcpy', 'gpu_memset') then 'memory'
        when names.category = 'kernel' then coalesce(class_given.class, class_by_rule.class, 'computation')
    end as class,
    -- `cudaFree` and copies that are not async wait, too
    case names.category
        when 'cuda_runtime'
            then
                regexp_matches(
                    names.name, 'Synchronize$|^(cuda|hip)(Free|Memcpy|MemcpyWithStream|Memcpy2D|Memcpy3D)$'
                )
        when 'cuda_driver'
            then
                regexp_matches(
                    names.name,
                    'Synchronize$|^cu(MemFree|Memcpy|Memcpy2D|Memcpy3D|MemcpyDtoH|MemcpyHtoD|MemcpyDtoD)(_v2)?$'
                )
        else false
    end as is_blocking,
    unit_by_rule.found.unit,
    nullif(unit_by_rule.found.precision, '=') as precision
from names
left join short_kernel on names.name = short_kernel.name and names.category = 'kernel'
left join class_by_rule on names.name = class_by_rule.name and names.category = 'kernel'
left join unit_by_rule on names.name = unit_by_rule.name and names.category = 'kernel'
left join class_given on names.name = class_given.name and names.category = 'kernel'
order by names.category, names.name
