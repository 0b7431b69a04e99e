-- The GPUs of the trace: model, size relative to the model, bandwidth, and limits of a multiprocessor.
--
-- The model is the one named by the user, or the first row with a pattern found in the file's device name (the user's
-- own rows, then `rules/gpus.csv`). A trace may show fewer multiprocessors than the model has: slices of a GPU (MIG),
-- partitions (CPX), or boards with multiprocessors switched off. `scale` is the available share, and `device_peak`
-- scales the peaks by it. Bandwidth follows memory: a device with all of the model's memory has all of the bandwidth.
-- NVIDIA's slices have eighths of both (MIG User Guide, "Terminology": memory slice). The bandwidth of a partition is
-- unknown and NULL.
--
-- The limits of a multiprocessor come from the file. Limits missing in the file come from the compute capability
-- (`rules/compute_capabilities.csv`). For other vendors they are NULL, because traces of their kernels have no
-- registers.
--
-- :reads gpu_match, compute_capabilities
-- :only_with gpu_match
-- :column device_id BIGINT              device number, as in `gpu_work.device`; -1 for work without a device number
-- :column name VARCHAR                  device name in the file; NULL without a name
-- :column model VARCHAR                 the vendor's model name; NULL, like the following columns, for an unknown name
-- :column vendor VARCHAR                NVIDIA, AMD or Intel
-- :column pattern VARCHAR               pattern found in the name; NULL for a model named by the user
-- :column evidence VARCHAR              source of the model: trace or user
-- :column source VARCHAR                source of the peaks; `given at import` for the user's own
-- :column sm_count BIGINT               multiprocessors or compute units, from the file or else from the model
-- :column model_sm_count BIGINT         multiprocessors or compute units of the whole model
-- :column scale DOUBLE                  share of the model's multiprocessors, up to 1
-- :column memory_bytes_per_s DOUBLE     memory bandwidth; NULL for a part of a GPU with shared bandwidth
-- :column host_bytes_per_s DOUBLE       PCIe bandwidth to the host, in one direction; NULL if unknown
-- :column cache_bytes BIGINT            last cache before memory, of the whole model: L2, or AMD's Infinity Cache
-- :column threads_per_sm BIGINT         most threads on a multiprocessor
-- :column blocks_per_sm BIGINT          most blocks on a multiprocessor
-- :column registers_per_sm BIGINT       registers of a multiprocessor
-- :column register_parts BIGINT         number of parts of the registers; a warp has all its registers in one part
-- :column shared_bytes_per_sm BIGINT    most shared memory on a multiprocessor
-- :column shared_unit_bytes BIGINT      allocation unit of shared memory; a block's shared memory is rounded up to a
--                                       multiple
-- :column reserved_shared_bytes BIGINT  shared memory reserved by the system in each block
with described_gpu as (
    select
        *,
        coalesce(sm_count, model_sm_count) as shown_sm_count,
        least(1, coalesce(sm_count / model_sm_count, 1)) as part,
        100.0 * memory_bytes / (memory_gib * 1024 * 1024 * 1024) as memory_pct,
        -- AMD's compute capabilities have a different meaning.
        case
            when
                coalesce(
                    vendor = 'NVIDIA',
                    not regexp_matches(name, 'AMD|Radeon|Instinct')
                    and try_cast(properties ->> 'warpSize' as bigint) = 32
                )
                then coalesce(
                    10 * try_cast(properties ->> 'computeMajor' as double)
                    + try_cast(properties ->> 'computeMinor' as double),
                    round(10 * compute_capability)
                )
        end as capability
    from gpu_match
)

select
    described_gpu.device_id,
    described_gpu.name,
    described_gpu.model,
    described_gpu.vendor,
    described_gpu.pattern,
    described_gpu.evidence,
    case when described_gpu.model is not null then coalesce(described_gpu.source, 'given at import') end as source,
    described_gpu.shown_sm_count as sm_count,
    described_gpu.model_sm_count,
    case when described_gpu.model is not null then described_gpu.part end as scale,
    1e9 * described_gpu.memory_gb_per_s * case
        when described_gpu.part = 1 or described_gpu.memory_pct >= whole_memory_pct() then 1
        when described_gpu.vendor = 'NVIDIA' then ceil(8 * described_gpu.memory_pct / 100) / 8
    end as memory_bytes_per_s,
    1e9 * described_gpu.pcie_gb_per_s as host_bytes_per_s,
    (1024 * 1024 * described_gpu.cache_mib)::bigint as cache_bytes,
    coalesce(
        try_cast(described_gpu.properties ->> 'maxThreadsPerMultiprocessor' as bigint), capable.threads_per_sm
    ) as threads_per_sm,
    capable.blocks_per_sm,
    coalesce(
        try_cast(described_gpu.properties ->> 'regsPerMultiprocessor' as bigint), capable.registers_per_sm
    ) as registers_per_sm,
    capable.register_parts,
    coalesce(
        try_cast(described_gpu.properties ->> 'sharedMemPerMultiprocessor' as bigint), capable.shared_bytes_per_sm
    ) as shared_bytes_per_sm,
    capable.shared_unit_bytes,
    capable.reserved_shared_bytes
from described_gpu
left join compute_capabilities as capable on described_gpu.capability = 10 * capable.major + capable.minor
order by described_gpu.device_id
