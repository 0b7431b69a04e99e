-- One row per GPU of the trace: what the file says of it, and what the tables of GPUs say of its model.
--
-- These are the GPUs that the file lists and those that its work ran on, so that a file which lists none has rows, too.
-- The GPU that the user names comes first, then the user's own rows, then those of `rules/gpus.csv`.
--
-- :reads device, gpu_op, gpu_given, gpus
-- :only_with device or gpu_op
-- :column device_id BIGINT           device number, as in `gpu_work.device`; -1 for work that names none
-- :column name VARCHAR               the name that the file gives
-- :column memory_bytes BIGINT        memory of the device by the file
-- :column sm_count BIGINT            its multiprocessors by the file
-- :column properties JSON            all that the file says about it
-- :column model VARCHAR              its model; NULL, like all that follows, where none is known
-- :column evidence VARCHAR           user or trace: who names the model
-- :column vendor VARCHAR             its vendor
-- :column pattern VARCHAR            what was found in the name; NULL for a model that the user names
-- :column source VARCHAR             where the figures are from
-- :column compute_capability DOUBLE  of the model
-- :column model_sm_count BIGINT      multiprocessors of the model
-- :column memory_gib DOUBLE          memory of the model
-- :column memory_gb_per_s DOUBLE     its bandwidth
-- :column pcie_gb_per_s DOUBLE       bandwidth of PCIe in one direction
-- :column cache_mib DOUBLE           the last cache before memory: L2, or AMD's Infinity Cache
-- :column peaks STRUCT(unit VARCHAR, "precision" VARCHAR, tflop_per_s DOUBLE)[]  what it can do
with listed as (
    select
        device_of(device_id) as device_id,
        nullif(name, '') as name,
        case when memory_bytes > 0 then memory_bytes end as memory_bytes,
        case when sm_count > 0 then sm_count end as sm_count,
        case when json_valid(properties) then properties::json end as properties
    from device
    qualify row_number() over (partition by device_of(device_id) order by name, sm_count, memory_bytes) = 1
),

present as (
    select device_id from listed
    union
    select device_of(device) as device_id from gpu_op
),

known as (
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

matched as (
    select
        present.device_id,
        arg_min(known, (known.is_shipped, known.position)) as found
    from present
    left join listed on present.device_id = listed.device_id
    inner join known
        -- the name of a slice of a GPU (MIG) is that of the whole with the slice behind
        on known.is_named or regexp_matches(regexp_replace(listed.name, ' MIG .*$', ''), known.name_pattern)
    group by present.device_id
)

select
    present.device_id,
    listed.name,
    listed.memory_bytes,
    listed.sm_count,
    listed.properties,
    matched.found.model,
    case when matched.found.is_named then 'user' when matched.found.model is not null then 'trace' end as evidence,
    matched.found.vendor,
    matched.found.name_pattern as pattern,
    matched.found.source,
    matched.found.compute_capability::double as compute_capability,
    matched.found.sm_count::bigint as model_sm_count,
    matched.found.memory_gib::double as memory_gib,
    matched.found.memory_gb_per_s::double as memory_gb_per_s,
    matched.found.pcie_one_way_gb_per_s::double as pcie_gb_per_s,
    greatest(matched.found.l2_mib, matched.found.infinity_cache_mib)::double as cache_mib,
    case when matched.found.model is not null then [
        {'unit': 'vector', 'precision': 'fp64', 'tflop_per_s': matched.found.fp64_vector_tflop_per_s::double},
        {'unit': 'vector', 'precision': 'fp32', 'tflop_per_s': matched.found.fp32_vector_tflop_per_s::double},
        {'unit': 'vector', 'precision': 'fp16', 'tflop_per_s': matched.found.fp16_vector_tflop_per_s::double},
        {'unit': 'matrix', 'precision': 'fp64', 'tflop_per_s': matched.found.fp64_matrix_tflop_per_s::double},
        {'unit': 'matrix', 'precision': 'fp32', 'tflop_per_s': matched.found.fp32_matrix_tflop_per_s::double},
        {'unit': 'matrix', 'precision': 'tf32', 'tflop_per_s': matched.found.tf32_matrix_tflop_per_s::double},
        {'unit': 'matrix', 'precision': 'fp16', 'tflop_per_s': matched.found.fp16_matrix_tflop_per_s::double},
        {'unit': 'matrix', 'precision': 'bf16', 'tflop_per_s': matched.found.bf16_matrix_tflop_per_s::double},
        {'unit': 'matrix', 'precision': 'fp8', 'tflop_per_s': matched.found.fp8_matrix_tflop_per_s::double},
        {'unit': 'matrix', 'precision': 'fp4', 'tflop_per_s': matched.found.fp4_matrix_tflop_per_s::double},
        {'unit': 'matrix', 'precision': 'int8', 'tflop_per_s': matched.found.int8_matrix_top_per_s::double}
    ] end as peaks
from present
left join listed on present.device_id = listed.device_id
left join matched on present.device_id = matched.device_id
order by present.device_id
