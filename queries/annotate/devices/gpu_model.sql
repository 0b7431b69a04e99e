-- One row per GPU of the trace: its model, how much of it there is, its bandwidth, and what a multiprocessor can hold.
--
-- The model is the first row whose pattern is found in the name that the file gives (`rules/gpus.csv`, after the user's
-- own rows), or the one that the user names. A trace may show fewer multiprocessors than the model has: slices of a GPU
-- (MIG), partitions (CPX), boards with some switched off. `scale` is what there is of them, and the peaks in
-- `device_peak` are as much less. Bandwidth follows memory: who has all of it has all of its
-- bandwidth; NVIDIA's slices have eighths of both (MIG User Guide, "Terminology": memory slice); how partitions share
-- it is not known, and so NULL.
--
-- The limits of a multiprocessor are those that the file lists, and what it leaves out follows from the compute
-- capability (`rules/compute_capabilities.csv`). They are NULL for other vendors, of whose kernels a trace has no
-- registers.
--
-- :reads gpu_match, compute_capabilities
-- :only_with gpu_match
-- :column device_id BIGINT              device number, as in `gpu_work.device`; -1 for work that names none
-- :column name VARCHAR                  the name that the file gives; NULL without one
-- :column model VARCHAR                 the vendor's name of the model; NULL, like what follows, for an unknown name
-- :column vendor VARCHAR                NVIDIA, AMD or Intel
-- :column pattern VARCHAR               what was found in the name; NULL for a model that the user names
-- :column evidence VARCHAR              who names the model: trace or user
-- :column source VARCHAR                where its peaks are from; `given at import` for the user's own
-- :column sm_count BIGINT               multiprocessors or compute units: by the file, else of the model
-- :column model_sm_count BIGINT         those of the whole model
-- :column scale DOUBLE                  what there is of the model's multiprocessors, up to 1
-- :column memory_bytes_per_s DOUBLE     bandwidth of its memory; NULL for a part of a GPU that shares it
-- :column host_bytes_per_s DOUBLE       bandwidth of PCIe to the host, in one direction; NULL where it is not known
-- :column cache_bytes BIGINT            the last cache before memory, of the whole model: L2, or AMD's Infinity Cache
-- :column threads_per_sm BIGINT         most threads on a multiprocessor
-- :column blocks_per_sm BIGINT          most blocks on a multiprocessor
-- :column registers_per_sm BIGINT       its registers
-- :column register_parts BIGINT         parts that these are divided in; a warp has all of its own in one
-- :column shared_bytes_per_sm BIGINT    most shared memory on a multiprocessor
-- :column shared_unit_bytes BIGINT      a block's shared memory is rounded up to these
-- :column reserved_shared_bytes BIGINT  shared memory that each block gives to the system
with described as (
    select
        *,
        coalesce(sm_count, model_sm_count) as shown_sm_count,
        least(1, coalesce(sm_count / model_sm_count, 1)) as part,
        100.0 * memory_bytes / (memory_gib * 1024 * 1024 * 1024) as memory_pct,
        -- AMD's compute capabilities mean something else
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
    described.device_id,
    described.name,
    described.model,
    described.vendor,
    described.pattern,
    described.evidence,
    case when described.model is not null then coalesce(described.source, 'given at import') end as source,
    described.shown_sm_count as sm_count,
    described.model_sm_count,
    case when described.model is not null then described.part end as scale,
    1e9 * described.memory_gb_per_s * case
        when described.part = 1 or described.memory_pct >= whole_memory_pct() then 1
        when described.vendor = 'NVIDIA' then ceil(8 * described.memory_pct / 100) / 8
    end as memory_bytes_per_s,
    1e9 * described.pcie_gb_per_s as host_bytes_per_s,
    (1024 * 1024 * described.cache_mib)::bigint as cache_bytes,
    coalesce(
        try_cast(described.properties ->> 'maxThreadsPerMultiprocessor' as bigint), capable.threads_per_sm
    ) as threads_per_sm,
    capable.blocks_per_sm,
    coalesce(
        try_cast(described.properties ->> 'regsPerMultiprocessor' as bigint), capable.registers_per_sm
    ) as registers_per_sm,
    capable.register_parts,
    coalesce(
        try_cast(described.properties ->> 'sharedMemPerMultiprocessor' as bigint), capable.shared_bytes_per_sm
    ) as shared_bytes_per_sm,
    capable.shared_unit_bytes,
    capable.reserved_shared_bytes
from described
left join compute_capabilities as capable on described.capability = 10 * capable.major + capable.minor
order by described.device_id
