-- One row per category and name of events with a duration: what the name says. Join on rank, category and name.
--
-- Every name of an event that takes time: a short form for people, and of GPU work what it does and on which unit.
--
-- Classes are computation, communication and memory. Copies and memsets are memory because of their category, whatever
-- they are called. The rules are data, and the first one that matches counts; for classes, the user's own
-- (`kernel_class`) come first. They look at `symbol`: the function's name with its namespaces, without return type,
-- template arguments and parameters, so that a word in an argument's type decides nothing.
--
-- A kernel of a matrix product, a convolution or attention tells by its name whether it runs on matrix units (tensor
-- cores) or on the vector units, and in which precision: the libraries put the types of the operands and the
-- instruction there (CUTLASS, cuBLAS and cuDNN: `s1688`, `s16816` with a type in front, alone it is TF32 and since
-- Ampere; `simt`, `sgemm`: FP32 on vector units; xmma: types of both operands; nvjet: a letter; Tensile: types and
-- `MI16x16x1`, the matrix instruction). `=` in the rules leaves the precision to the types of the op.
--
-- Mangled names are taken apart as the Itanium C++ ABI says: `_ZN`, then each part after its length.
--
-- :reads event, kernel_class
-- :column category VARCHAR     kind of event; NULL when it has none
-- :column name VARCHAR         the event's name
-- :column short_name VARCHAR   without return type, namespaces, template arguments, tile sizes and paths of files
-- :column class VARCHAR        of GPU work: computation, communication or memory; NULL for all else
-- :column is_blocking BOOLEAN  a call of the runtime or driver that returns when the GPU is done
-- :column unit VARCHAR         of a kernel of matrix products: matrix (tensor cores) or vector; NULL for all else
-- :column precision VARCHAR    of these, fp64, fp32, tf32, bf16, fp16, fp8, fp4 or int8; NULL where the name does not
--                              tell
with recursive class_rule as (
    select * from (
        values
        -- priority, a word that the symbol must contain (in lower case; quicker than a pattern), pattern, class
        -- What torch.compile generates is named after the ops fused in it, which may be collectives.
        (1, 'triton_', '^triton_(poi|per|red|tem|for|mm|bmm|flex)_', 'computation'),
        -- NCCL before 2.17: ncclAllReduceRingLLKernel_sum_f32; until 2.18: ncclKernel_AllReduce_RING_LL_Sum_float;
        -- since: ncclDevKernel_AllReduce_Sum_f32_RING_LL, ncclDevKernel_Generic (nccl/src/device/generate.py); with
        -- symmetric memory: ncclSymkDevKernel. RCCL has the same names, and rcclGenericKernel.
        (10, 'ccl', '(^|::)(nccl|rccl)', 'communication'),
        -- MSCCL: mscclKernel_Sum_float_LL; MSCCL++ has a namespace (microsoft/msccl, microsoft/mscclpp).
        (11, 'msccl', '(^|::|_)msccl', 'communication'),
        -- NVSHMEM and rocSHMEM (nvshmemi_…, barrier_on_stream_kernel_threadgroup)
        (12, 'shmem', '(nv|roc)shmem', 'communication'),
        (13, 'barrier_on_stream', '^barrier_on_stream_kernel', 'communication'),
        -- all-to-all for mixtures of experts: DeepEP (deep_ep::internode::dispatch), Perplexity's kernels
        (14, 'deep_ep', '(^|::)deep_ep::', 'communication'),
        (15, 'pplx', '(^|::)pplx(::|_)', 'communication'),
        -- HCCL of Ascend and Gaudi (hcom_allReduce_), oneCCL of Intel
        (16, 'hc', '(?i)(^|::|_)(hccl|hcom_)', 'communication'),
        (17, 'ccl', '(?i)(^|::|_)(oneccl|ccl)(_|::)', 'communication'),
        -- custom all-reduce of vLLM and aiter (csrc/custom_all_reduce.cuh), TransformerEngine's userbuffers
        (18, 'cross_device', 'cross_device_(reduce|store)', 'communication'),
        (19, 'quickreduce', '(^|::)quickreduce::', 'communication'),
        (20, 'userbuffers_', '(^|::)userbuffers_', 'communication'),
        -- torch's symmetric memory (CUDASymmetricMemoryOps.cu), TensorRT-LLM and FlashInfer
        (21, 'multimem_', '(^|::)multimem_', 'communication'),
        (22, 'shot', '(?i)(one|two)_?shot_?(all|reduce|lamport)', 'communication'),
        (23, 'allreduce_fusion', 'allreduce_fusion', 'communication'),
        -- whatever else is named after a collective; blockAllReduce and the like work inside one kernel
        (30, 'reduce', '(^|::|_)(all_?reduce|reduce_?scatter)', 'communication'),
        (31, 'reduce', '(^|::)(AllReduce|ReduceScatter|reduceScatter|allReduce)', 'communication'),
        (32, 'gather', '(^|::|_)all_?gather|(^|::)[Aa]llGather', 'communication'),
        (33, 'all', '(^|::|_)(all_?to_?all|all2all)|(^|::)[Aa]llToAll', 'communication'),
        -- copies and memsets that ROCm runs as kernels (the blit kernels of ROCclr)
        (40, 'rocclr', '^__amd_rocclr_(copy|fill)', 'memory'),
        (41, 'memory_copy', '^MEMORY_COPY_', 'memory')
    ) as rules (priority, word, pattern, class)
),

kernel_rule as (
    select * from (
        values
        -- priority, a word that the name must contain, pattern, short name
        -- Kernels that apply what a template argument says. First the function around a lambda:
        (
            1, 'elementwise_kernel',
            'elementwise_kernel\w*<.*?(\w+?)(?:_cuda|_kernel|_impl|CUDA|Kernel|Impl)*(?:<[^<>]*>)?\([^(){}]*\)'
            || '(?: const)?::\{lambda',
            'elementwise \1'
        ),
        (2, 'elementwise_kernel', 'elementwise_kernel\w*<.*?binary_internal::(\w+)Functor', 'elementwise \1'),
        (3, 'elementwise_kernel', 'elementwise_kernel\w*<.*?CUDAFunctor\w*_(\w+)', 'elementwise \1'),
        (
            4, 'elementwise_kernel',
            'elementwise_kernel\w*<.*?(?:AUnary|BUnary|Binary)Functor<.*?(\w+)Functor', 'elementwise \1'
        ),
        (5, 'elementwise_kernel', 'elementwise_kernel\w*<.*?(\w+)Functor', 'elementwise \1'),
        (
            6, '_scatter_gather_', '_scatter_gather_elementwise_kernel<.*?<(true|false).*?::(?:Tensor)?(\w+)>\(',
            'scatter_gather \2'
        ),
        (
            7, 'reduce_kernel',
            'reduce_kernel<.*?func_wrapper_t<[^,]*, (?:\w+::)*(\w+?)(?:_cuda|_kernel|_impl|_functor)*[<(]',
            'reduce \1'
        ),
        (8, 'reduce_kernel', 'reduce_kernel<.*?ReduceOp<.*?(\w+?)Ops\b', 'reduce \1'),
        (
            9, 'multi_tensor_apply',
            'multi_tensor_apply_kernel<.*?(\w+?)Functor<[^<>]*(?:<[^<>]*>)?[^<>]*>, (?:std|at::native)::(\w+)<',
            'multi_tensor_apply \1 \2'
        ),
        (
            10, 'multi_tensor_apply', 'multi_tensor_apply_kernel<.*?(\w+?)(?:Math)?Functor',
            'multi_tensor_apply \1'
        ),
        (11, 'distribution_', 'distribution_\w+_kernel<.*?::(\w+?)(?:_kernel)?<', 'random \1'),
        -- CUTLASS: what it computes for which gradient, or the first argument of the wrapper
        (
            20, 'cutlass', 'cutlass.*ImplicitGemmConvolution.*Conv2d(Fprop|Dgrad|Wgrad)',
            'ImplicitGemmConvolution \1'
        ),
        (
            21, 'cutlass', '^cutlass\w*::(?:device_)?[Kk]ernel2?<[^<>]*?(\w*(?:gemm|fprop|dgrad|wgrad)\w*)[>:]',
            '\1'
        ),
        (22, 'cutlass', '^cutlass\w*::(?:device_)?[Kk]ernel2?<(?:\w+::)*(\w+)', '\1'),
        -- Thrust and rocPRIM name the algorithm in an argument.
        (23, 'thrust::', 'thrust::.*_kernel_agent<.*?::(\w+?)Agent<', 'thrust \1'),
        (24, 'rocprim::', 'rocprim::.*trampoline_kernel<.*?wrapped_(\w+)_config', 'rocprim \1'),
        -- Tensile (rocBLAS, hipBLASLt): where the summed index l stands tells which side is transposed.
        (30, 'Cijk_', '^Cijk_Ailk_Bljk_([A-Z0-9]+)_', 'gemm_\1_nn'),
        (31, 'Cijk_', '^Cijk_Ailk_Bjlk_([A-Z0-9]+)_', 'gemm_\1_nt'),
        (32, 'Cijk_', '^Cijk_Alik_Bljk_([A-Z0-9]+)_', 'gemm_\1_tn'),
        (33, 'Cijk_', '^Cijk_Alik_Bjlk_([A-Z0-9]+)_', 'gemm_\1_tt'),
        -- MIOpen's implicit GEMM convolutions: igemm_fwd_gtcx3_nhwc_bf16_bx0_…
        (34, 'igemm_', '^igemm_(fwd|bwd|wrw)_[a-z0-9]+_(n[a-z]+)_([a-z0-9]+)_', 'conv_igemm_\1_\2_\3'),
        -- cuBLAS on Hopper and later: nvjet_tst_128x64_64x6_2x1_v_bz_TNT
        (35, 'nvjet_', '^nvjet_(?:sm\d+_)?([a-z]+)_.*_([TN]{2,3})$', 'gemm_nvjet_\1_\2'),
        (36, 'nvjet_', '^nvjet_(?:sm\d+_)?([a-z]+)_', 'gemm_nvjet_\1'),
        -- NCCL: what and how, without the wrapper's name
        (40, 'nccl', '^nccl(?:Symk)?(?:Dev)?Kernel_(\w+)', 'nccl_\1'),
        -- torch.compile: the number tells kernels of one graph apart, not kinds of kernels.
        (41, 'triton_', '^(triton_\w+?)_\d+(?:d\w*)?$', '\1')
    ) as rules (priority, word, pattern, short)
),

unit_rule as (
    select * from (
        values
        -- priority, pattern, unit, precision; the first that matches counts
        -- around the products: layouts, sums of partial results, copies
        (
            1,
            'nchwToNhwc|nhwcToNchw|batched_transpose|SubTensorOp|split[Kk]_?reduce|reduceWgrad|computeOffsets|'
            || 'convertTensor|tensorTransform|im2col|col2im|Im2d2Col|transpose_CNHW|scalePackedTensor|CatArray|'
            || 'compute_mha|seqlen|SetTensor|epilogue::impl|PostGSU|prepare_|elementwise|direct_copy|vectorized|'
            || 'reduce_kernel|Zero_out|_zero\b',
            null, null
        ),
        (2, 'triton_(poi|red|per|unk)_', null, null),
        -- Tensile
        (10, '^Cijk_\w+_F8', 'matrix', 'fp8'),
        (11, '^(Custom_)?Cijk_[A-Za-z]+_[A-Za-z]+_(BB|B_B|BS).*_MI\d+x\d+', 'matrix', 'bf16'),
        (12, '^(Custom_)?Cijk_[A-Za-z]+_[A-Za-z]+_(HH|H_H|HS|H_).*_MI\d+x\d+', 'matrix', 'fp16'),
        (13, '^(Custom_)?Cijk_[A-Za-z]+_[A-Za-z]+_(S_X|SX|S_B_X).*_MI\d+x\d+', 'matrix', 'tf32'),
        (14, '^(Custom_)?Cijk_[A-Za-z]+_[A-Za-z]+_(S_|SB|SS|S).*_MI\d+x\d+', 'matrix', 'fp32'),
        (15, '^(Custom_)?Cijk_[A-Za-z]+_[A-Za-z]+_D.*_MI\d+x\d+', 'matrix', 'fp64'),
        (16, '^Cijk_[A-Za-z]+_[A-Za-z]+_SB', 'vector', 'fp32'),
        (17, '^Cijk_', 'vector', '='),
        -- MIOpen and Composable Kernel
        (20, 'igemm_(fwd|bwd|wrw|upd)_gtcx\d*_\w*?bf16', 'matrix', 'bf16'),
        (21, 'igemm_(fwd|bwd|wrw)_gtcx\d*_\w*?fp16', 'matrix', 'fp16'),
        (22, 'igemm_(fwd|bwd|wrw)_gtcx\d*_\w*?fp32', 'matrix', 'fp32'),
        (23, 'xdl|wmma_cshuffle|MfmaInstr', 'matrix', '='),
        (24, 'miopenSp3AsmConv|miopenGcnAsm|MIOpenConvUni|gridwise_convolution|naive_conv', 'vector', '='),
        (25, '\battn_(fwd|bwd)|bwd_kernel_d[kqv]|fmha_(fwd|bwd)_(hd|d)\d|aiter.*fmha', 'matrix', '='),
        -- nvjet of cuBLAS
        (30, 'nvjet_(sm\d+_)?[qo]', 'matrix', 'fp8'),
        (31, 'nvjet_(sm\d+_)?h', 'matrix', 'fp16'),
        (32, 'nvjet_(sm\d+_)?t', 'matrix', 'bf16'),
        (33, 'nvjet_(sm\d+_)?s', 'matrix', 'tf32'),
        (34, 'nvjet_(sm\d+_)?d', 'matrix', 'fp64'),
        -- cuBLAS, cuDNN, CUTLASS
        (40, '_[eE]2m1', 'matrix', 'fp4'),
        (41, '[eE]4m3|[eE]5m2|fp8', 'matrix', 'fp8'),
        (42, 'simt_', 'vector', 'fp32'),
        (43, 'tensorop_d\d+|d884gemm|xmma_gemm_f64f64', 'matrix', 'fp64'),
        (44, 'i8816|i16832|i8i8|imma|s8s8', 'matrix', 'int8'),
        (45, 'xmma_\w*?_bf16bf16', 'matrix', 'bf16'),
        (46, 'xmma_\w*?_f16f16', 'matrix', 'fp16'),
        (47, 'xmma_\w*?_tf32', 'matrix', 'tf32'),
        (48, 'xmma_\w*?_f32f32', 'vector', 'fp32'),
        (
            49,
            'bf16_s(884|1688|16816|161616)|s(884|1688|16816)\w*_bf16|_bf16_\w*(tensorop|wmma)|(tensorop|wmma)_bf16',
            'matrix', 'bf16'
        ),
        (
            50,
            '(fp16|f16|half)_s(884|1688|16816|161616)|s(884|1688|16816)\w*_(fp16|f16)|(tensorop|wmma)_(f16|fp16)',
            'matrix', 'fp16'
        ),
        (51, 'h(884|1688|16816|161616)|hmma', 'matrix', 'fp16'),
        (52, 'tf32|s1688|s16168', 'matrix', 'tf32'),
        (53, 'flash_(fwd|bwd)|fmha|sdpa_sm\d+|flash::|FlashAttn|device_kernel<flash', 'matrix', '='),
        (54, 'wgmma|gmma|GmmaTiled|MainloopSm(90|100)|cutlass3x_|sm(90|100)_.*tensorop', 'matrix', '='),
        (55, 'sgemm|scudnn|gemmSN|gemv|dot_kernel', 'vector', 'fp32'),
        (
            56,
            '(dgrad|wgrad)_engine<float|wgrad_alg\d_engine<float|implicit_convolve_sgemm|precomputed_convolve_sgemm|'
            || 'explicit_convolve_sgemm',
            'vector', 'fp32'
        ),
        (
            57, 'fft2d|winograd|wgrad_alg|dgrad_alg|conv2d_c1_k1|conv_depthwise|implicit_convolve|explicit_convolve',
            'vector', '='
        ),
        (58, 'tensorop', 'matrix', '='),
        (59, 'triton_(tem|mm)|_matmul|matmul_|gemm_kernel|_gemm', 'matrix', '=')
    ) as rules (priority, pattern, unit, precision)
),

names as (
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
        arg_min(rule.class, rule.priority) as class
    from kernel
    inner join class_rule as rule
        -- not AND, which the database evaluates in an order of its own: a pattern costs a hundred times the word
        on case when contains(lower(kernel.symbol), rule.word) then regexp_matches(kernel.symbol, rule.pattern) end
    group by kernel.name
),

-- The unit and precision of each kernel that a rule matches.
unit_by_rule as (
    select
        kernel.name,
        arg_min({'unit': rule.unit, 'precision': rule.precision}, rule.priority) as found
    from kernel
    inner join unit_rule as rule on regexp_matches(kernel.name, rule.pattern)
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
            arg_min(rule.pattern, rule.priority) as pattern,
            arg_min(rule.short, rule.priority) as short
        from kernel
        inner join kernel_rule as rule
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
