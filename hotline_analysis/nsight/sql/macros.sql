-- Macros shared by the other files in this folder.
--
-- Times are nanoseconds since the start of the recording. As for Kineto files, times outside the range of any real
-- clock become NULL. Within the limits, ends and distances fit 64 bits.
create or replace temp macro start_in_time(start_ns) as
case when start_ns between -1000000000000000000 and 4600000000000000000 then start_ns end;

create or replace temp macro duration_in_time(start_ns, end_ns) as
case
    when
        start_ns between -1000000000000000000 and 4600000000000000000
        and end_ns between start_ns and 4600000000000000000
        and end_ns - start_ns <= 1000000000000000000
        then end_ns - start_ns
end;

-- Process and thread of a global id (Nsight Systems, "Common SQLite examples").
create or replace temp macro process_of(global_id) as ((global_id >> 24) & 16777215);
create or replace temp macro thread_of(global_id) as (global_id & 16777215);

-- A known id; CUPTI's 32-bit value for "none" (CUPTI_SYNCHRONIZATION_INVALID_VALUE) becomes NULL.
create or replace temp macro known_id(id) as case when id between 0 and 4294967294 then id end;

-- Kernel names in Kineto's spelling, from the demangler of the C++ runtime. NVIDIA's demangler writes `<unnamed>` for
-- an anonymous namespace, casts before template arguments, and a space before `*` and `&`.
create or replace temp macro kernel_name(demangled) as
case
    when regexp_matches(demangled, '[<( ]')
        then
            regexp_replace(
                regexp_replace(
                    regexp_replace(
                        replace(demangled, '<unnamed>', '(anonymous namespace)'), '\(bool\)1\b', 'true', 'g'
                    ), '\(bool\)0\b', 'false', 'g'
                ), '\((?:(?:un)?signed )?(?:char|short|int|long|long long)\)(-?\d+)', '\1', 'g'
            )
    else demangled
end;

-- Names of runtime calls end with the version of their last change, and sometimes with the kind of default stream:
-- `cudaLaunchKernel_ptsz_v7000`. Driver calls have the declared names: `cuMemcpyHtoD_v2`.
create or replace temp macro call_name(name) as regexp_replace(name, '(_pts[zd])?(_v\d{4,5})?$', '');

-- Whether a range was pushed by a library, by domain. Library ranges do not describe parts of the program.
create or replace temp macro is_library_domain(domain_name) as
regexp_matches(
    domain_name,
    '(?i)^(NCCL|NVSHMEM|UCX|MPI|CCCL|CUB|Thrust|cuBLAS\w*|cuDNN|cuSPARSE\w*|cuFFT\w*|cuSOLVER\w*|cuRAND|cuDF|libcudf'
    || '|librmm|RAFT|TensorRT|cuTENSOR\w*|DALI|NVTX-?Memory|OpenACC|nvJPEG\w*|CUTLASS)$'
);

-- Whether a range pushed by PyTorch (`torch.autograd.profiler.emit_nvtx`) is an op. The text does not distinguish ops
-- from `record_function`. A sequence number or shapes rule out `record_function`, which has neither
-- (`RecordScope::USER_SCOPE` in ATen/record_function.h). Ops have C++ names or names of autograd nodes. FSDP's ranges
-- look like C++ names.
create or replace temp macro is_op_name(name) as
not regexp_matches(name, '^(FSDP|nccl|gloo|mpi|ucc)::?')
and regexp_matches(
    name,
    '^((\w+::)+[\w.~]+|autograd::engine::evaluate_function: .*|\w*Backward\d*|detach_?|record_param_comms'
    || '|Torch-Compiled Region.*|TorchDynamo Cache Lookup.*|CompiledFunction\w*|triton_\w+)$'
);

-- Name of a file without its folder.
create or replace temp macro file_name(path) as regexp_extract(path, '[^/\\]*$');
