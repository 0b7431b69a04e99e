-- The GPUs of the trace, with the file's device properties and the matching row of the GPU tables.
--
-- Includes the GPUs listed in the file and the GPUs of the work: a file without a list also has rows. The GPU named by
-- the user comes first, then the user's own rows, then the rows of `rules/gpus.csv`.
--
-- :reads device, gpu_op, gpu_given, gpus
-- :only_with device or gpu_op
-- :column device_id BIGINT           device number, as in `gpu_work.device`; -1 for work without a device number
-- :column name VARCHAR               device name in the file
-- :column memory_bytes BIGINT        device memory, from the file
-- :column sm_count BIGINT            multiprocessors, from the file
-- :column properties JSON            all device properties in the file
-- :column model VARCHAR              model; NULL, like the following columns, if unknown
-- :column evidence VARCHAR           source of the model: user or trace
-- :column vendor VARCHAR             vendor of the model
-- :column pattern VARCHAR            pattern found in the name; NULL for a model named by the user
-- :column source VARCHAR             source of the figures
-- :column compute_capability DOUBLE  compute capability of the model
-- :column model_sm_count BIGINT      multiprocessors of the model
-- :column memory_gib DOUBLE          memory of the model
-- :column memory_gb_per_s DOUBLE     memory bandwidth of the model
-- :column pcie_gb_per_s DOUBLE       PCIe bandwidth in one direction
-- :column cache_mib DOUBLE           last cache before memory: L2, or AMD's Infinity Cache
-- :column peaks STRUCT(unit VARCHAR, "precision" VARCHAR, tflop_per_s DOUBLE)[]  peak performance
with listed_gpu as (
    select
        device_of(device_id) as device_id,
        nullif(name, '') as name,
        case when memory_bytes > 0 then memory_bytes end as memory_bytes,
        case when sm_count > 0 then sm_count end as sm_count,
        case when json_valid(properties) then properties::json end as properties
    from device
    qualify row_number() over (partition by device_of(device_id) order by name, sm_count, memory_bytes) = 1
),

present_gpu as (
    select device_id from listed_gpu
    union
    select device_of(device) as device_id from gpu_op
),

gpu_spec as (
    select
        *,
        name_pattern is null as is_named,
        false as is_shipped
    from gpu_given
    union all by name
    select
        *,
        false as is_named,
        true as is_shipped
    from gpus
),

matched_gpu as (
    select
        present_gpu.device_id,
        arg_min(gpu_spec, (gpu_spec.is_shipped, gpu_spec.position)) as found
    from present_gpu
    left join listed_gpu on present_gpu.device_id = listed_gpu.device_id
    inner join gpu_spec
        -- The name of a slice of a GPU (MIG) is the name of the whole GPU followed by the slice.
        on gpu_spec.is_named or regexp_matches(regexp_replace(listed_gpu.name, ' MIG .*$', ''), gpu_spec.name_pattern)
    group by present_gpu.device_id
)

select
    present_gpu.device_id,
    listed_gpu.name,
    listed_gpu.memory_bytes,
    listed_gpu.sm_count,
    listed_gpu.properties,
    matched_gpu.found.model,
    case
        when matched_gpu.found.is_named then 'user'
        when matched_gpu.found.model is not null then 'trace'
    end as evidence,
    matched_gpu.found.vendor,
    matched_gpu.found.name_pattern as pattern,
    matched_gpu.found.source,
    matched_gpu.found.compute_capability::double as compute_capability,
    matched_gpu.found.sm_count::bigint as model_sm_count,
    matched_gpu.found.memory_gib::double as memory_gib,
    matched_gpu.found.memory_gb_per_s::double as memory_gb_per_s,
    matched_gpu.found.pcie_one_way_gb_per_s::double as pcie_gb_per_s,
    greatest(matched_gpu.found.l2_mib, matched_gpu.found.infinity_cache_mib)::double as cache_mib,
    case when matched_gpu.found.model is not null then [
        {'unit': 'vector', 'precision': 'fp64', 'tflop_per_s': matched_gpu.found.fp64_vector_tflop_per_s::double},
        {'unit': 'vector', 'precision': 'fp32', 'tflop_per_s': matched_gpu.found.fp32_vector_tflop_per_s::double},
        {'unit': 'vector', 'precision': 'fp16', 'tflop_per_s': matched_gpu.found.fp16_vector_tflop_per_s::double},
        {'unit': 'matrix', 'precision': 'fp64', 'tflop_per_s': matched_gpu.found.fp64_matrix_tflop_per_s::double},
        {'unit': 'matrix', 'precision': 'fp32', 'tflop_per_s': matched_gpu.found.fp32_matrix_tflop_per_s::double},
        {'unit': 'matrix', 'precision': 'tf32', 'tflop_per_s': matched_gpu.found.tf32_matrix_tflop_per_s::double},
        {'unit': 'matrix', 'precision': 'fp16', 'tflop_per_s': matched_gpu.found.fp16_matrix_tflop_per_s::double},
        {'unit': 'matrix', 'precision': 'bf16', 'tflop_per_s': matched_gpu.found.bf16_matrix_tflop_per_s::double},
        {'unit': 'matrix', 'precision': 'fp8', 'tflop_per_s': matched_gpu.found.fp8_matrix_tflop_per_s::double},
        {'unit': 'matrix', 'precision': 'fp4', 'tflop_per_s': matched_gpu.found.fp4_matrix_tflop_per_s::double},
        {'unit': 'matrix', 'precision': 'int8', 'tflop_per_s': matched_gpu.found.int8_matrix_top_per_s::double}
    ] end as peaks
from present_gpu
left join listed_gpu on present_gpu.device_id = listed_gpu.device_id
left join matched_gpu on present_gpu.device_id = matched_gpu.device_id
order by present_gpu.device_id
