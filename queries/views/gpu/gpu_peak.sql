-- What each GPU can do at most, as its vendor says.
--
-- What the GPUs of a run can do at most, as their vendors say: looked up by the name that the file gives.
--
-- Peaks are dense (without sparsity), at boost clock; those of half precision add up in FP32, as PyTorch does. Sources:
-- the vendors' data sheets and architecture white papers (NVIDIA WP-08019, WP-08608, WP-09183, Ampere GA102 2.1, Ada
-- 2.01, A100, H100 and Blackwell briefs; AMD CDNA 1 to 4 white papers and Instinct data sheets; Intel Max 1550). A part
-- of a GPU, with fewer multiprocessors than the model has, can do as much less. All is NULL for an unknown name.
--
-- :reads device
-- :column rank BIGINT                     process rank
-- :column device BIGINT                   device number
-- :column model VARCHAR                   the vendor's name of the model; NULL, like all that follows, for a name that
--                                         is not known
-- :column sm_count BIGINT                 streaming multiprocessors, or compute units
-- :column part DOUBLE                     the part of the model's multiprocessors that there are, if fewer, from 0 to 1
-- :column fp32_vector_tflop_per_s DOUBLE  peak in FP32 on vector units
-- :column fp32_matrix_tflop_per_s DOUBLE  peak in FP32 on matrix units; NULL where they have none
-- :column tf32_matrix_tflop_per_s DOUBLE  peak in TF32 on matrix units, likewise
-- :column half_matrix_tflop_per_s DOUBLE  peak in BF16 or FP16 on matrix units, likewise
-- :column memory_gb_per_s DOUBLE          bandwidth of its memory
with known as (
    select * from (
        values
        -- position (the first that matches counts), pattern of the name, model, multiprocessors, then in TFLOP/s: FP32
        -- on vector units, and on matrix units FP32, TF32, FP16 and BF16; memory bandwidth in GB/s
        (1, 'P100-SXM2', 'Tesla P100 SXM2 16GB', 56, 10.6, null, null, null, null, 732),
        (2, 'P100-PCIE-16GB', 'Tesla P100 PCIe 16GB', 56, 9.3, null, null, null, null, 732),
        (3, 'V100-SXM2-16GB', 'Tesla V100 SXM2 16GB', 80, 15.7, null, null, 125, null, 900),
        (4, 'V100-SXM2-32GB', 'Tesla V100 SXM2 32GB', 80, 15.7, null, null, 125, null, 900),
        (5, 'V100-PCIE-16GB', 'Tesla V100 PCIe 16GB', 80, 14, null, null, 112, null, 900),
        (6, 'V100-PCIE-32GB', 'Tesla V100 PCIe 32GB', 80, 14, null, null, 112, null, 900),
        (7, '\bT4$', 'T4', 40, 8.1, null, null, 65, null, 320),
        (8, 'RTX 2080 Ti', 'GeForce RTX 2080 Ti', 68, 13.4, null, null, 53.8, null, 616),
        (9, 'RTX 3090$', 'GeForce RTX 3090', 82, 35.6, null, 35.6, 71, 71, 936),
        (10, 'RTX 4090$', 'GeForce RTX 4090', 128, 82.6, null, 82.6, 165.2, 165.2, 1008),
        (11, 'RTX 5090$', 'GeForce RTX 5090', 170, 104.8, null, 104.8, 209.5, 209.5, 1792),
        (12, 'RTX A6000$', 'RTX A6000', 84, 38.7, null, 77.4, 154.8, 154.8, 768),
        (13, '\bA10$', 'A10', 72, 31.2, null, 62.5, 125, 125, 600),
        (14, '\bA10G$', 'A10G (AWS)', 80, null, null, null, null, null, 600),
        (15, '\bA30$', 'A30', 56, 10.3, null, 82, 165, 165, 933),
        (16, '\bA40$', 'A40', 84, 37.4, null, 74.8, 149.7, 149.7, 696),
        (17, 'A100-SXM4-40GB|A100-PG509-200', 'A100 SXM4 40GB', 108, 19.5, null, 156, 312, 312, 1555),
        (18, 'A100-SXM4-80GB', 'A100 SXM4 80GB', 108, 19.5, null, 156, 312, 312, 2039),
        (19, 'A100-PCIE-40GB', 'A100 PCIe 40GB', 108, 19.5, null, 156, 312, 312, 1555),
        (20, 'A100 80GB PCIe', 'A100 PCIe 80GB', 108, 19.5, null, 156, 312, 312, 1935),
        (21, '\bL4$', 'L4', 58, 30.3, null, 60, 121, 121, 300),
        (22, '\bL40$', 'L40', 142, 90.5, null, 90.5, 181, 181, 864),
        (23, '\bL40S$', 'L40S', 142, 91.6, null, 183, 362, 362, 864),
        (24, 'H100 80GB HBM3$', 'H100 SXM5 80GB', 132, 66.9, null, 494.7, 989.4, 989.4, 3352),
        (25, 'H100 PCIe', 'H100 PCIe 80GB', 114, 51.2, null, 378, 756, 756, 2039),
        (26, 'H100 NVL', 'H100 NVL 94GB', 132, 60, null, 417.5, 835.5, 835.5, 3900),
        (27, 'H200$', 'H200 SXM 141GB', 132, 66.9, null, 494.7, 989.4, 989.4, 4800),
        (28, 'H200 NVL', 'H200 NVL 141GB', 132, 60, null, 417.5, 835.5, 835.5, 4800),
        (29, 'GH200', 'GH200 (H100 part, 96GB HBM3)', 132, 66.9, null, 494.7, 989.4, 989.4, 4000),
        (30, '(^|\s)B200$', 'B200 (HGX, 1000 W)', 148, 75, null, 1100, 2250, 2250, 8000),
        (31, 'GB200', 'GB200 (one of its GPUs, 1200 W)', null, 80, null, 1250, 2500, 2500, 8000),
        (32, 'MI100', 'Instinct MI100', 120, 23.1, 46.1, null, 184.6, 92.3, 1228.8),
        (33, 'MI210', 'Instinct MI210', 104, 22.6, 45.3, null, 181, 181, 1638.4),
        (34, 'MI250X', 'Instinct MI250X (one GCD)', 110, 23.95, 47.85, null, 191.5, 191.5, 1638.4),
        (35, 'MI250$', 'Instinct MI250 (one GCD)', 104, 22.65, 45.25, null, 181, 181, 1638.4),
        (36, 'MI300A', 'Instinct MI300A', 228, 122.6, 122.6, 490.3, 980.6, 980.6, 5300),
        (37, 'MI300X', 'Instinct MI300X', 304, 163.4, 163.4, 653.7, 1307.4, 1307.4, 5300),
        (38, 'MI325X', 'Instinct MI325X', 304, 163.4, 163.4, 653.7, 1307.4, 1307.4, 6000),
        (39, 'MI350X', 'Instinct MI350X', 256, 144.2, 144.2, null, 2306.9, 2306.9, 8000),
        (40, 'MI355X', 'Instinct MI355X', 256, 157.3, 157.3, null, 2516.6, 2516.6, 8000),
        (41, 'Data Center GPU Max 1550', 'Max 1550 (both stacks)', 128, 52.4, null, null, null, null, 3276.8)
    ) as models (
        position, pattern, model, sm_count, fp32_vector, fp32_matrix, tf32_matrix, fp16_matrix, bf16_matrix, gb_per_s
    )
),

matched as (
    select
        device.rank,
        device.device_id,
        arg_min(known, known.position) as found,
        any_value(device.sm_count) as sm_count
    from device
    inner join known on regexp_matches(device.name, known.pattern)
    group by device.rank, device.device_id
)

select
    device.rank,
    device.device_id as device,
    matched.found.model,
    coalesce(device.sm_count, matched.found.sm_count)::bigint as sm_count,
    least(1, coalesce(device.sm_count / matched.found.sm_count, 1)) as part,
    (part * matched.found.fp32_vector)::double as fp32_vector_tflop_per_s,
    (part * matched.found.fp32_matrix)::double as fp32_matrix_tflop_per_s,
    (part * matched.found.tf32_matrix)::double as tf32_matrix_tflop_per_s,
    (part * greatest(matched.found.fp16_matrix, matched.found.bf16_matrix))::double as half_matrix_tflop_per_s,
    (part * matched.found.gb_per_s)::double as memory_gb_per_s
from device
left join matched on device.rank = matched.rank and device.device_id = matched.device_id
