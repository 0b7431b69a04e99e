-- Calls of the runtime and the driver, and copies on the GPU, by name: CUDA's, HIP's, and those of Level Zero and the
-- Unified Runtime (Intel). Every rule about the name of a call is here; `name_info.is_blocking` is stored.

-- Whether a call launches a kernel: `cudaLaunchKernelExC`, `cuLaunchCooperativeKernel`, `hipExtModuleLaunchKernel`,
-- `zeCommandListAppendLaunchKernel`, `urEnqueueKernelLaunch`. `cudaLaunch` and `hipLaunchByPtr` are the calls of early
-- versions.
create or replace macro is_kernel_launch(name) as
regexp_matches(name, 'Launch(Cooperative)?Kernel|KernelLaunch|^(cudaLaunch|hipLaunchByPtr)$');

-- Whether a call launches a CUDA or HIP graph.
create or replace macro is_graph_launch(name) as
contains(name, 'GraphLaunch');

-- Whether a call may launch a kernel before the previous kernel ends, by programmatic dependent launch (CUDA
-- programming guide).
create or replace macro is_early_launch(name) as
contains(name, 'LaunchKernelEx');

-- Whether a call begins to capture the work of a stream for a graph. Calls launch nothing until the capture ends.
create or replace macro is_capture_begin(name) as
contains(name, 'StreamBeginCapture');

-- Whether a call ends a capture.
create or replace macro is_capture_end(name) as
contains(name, 'StreamEndCapture');

-- Whether the only purpose of a call is to wait for the GPU.
create or replace macro is_synchronise_call(name) as
ends_with(name, 'Synchronize');

-- Whether a runtime or driver call returns when the GPU is done: calls that synchronise, `cudaFree` and synchronous
-- copies (CUDA runtime API, "API synchronization behavior").
create or replace macro is_blocking_call(category, name) as
case category
    when 'cuda_runtime'
        then regexp_matches(name, 'Synchronize$|^(cuda|hip)(Free|Memcpy|MemcpyWithStream|Memcpy2D|Memcpy3D)$')
    when 'cuda_driver'
        then
            regexp_matches(
                name, 'Synchronize$|^cu(MemFree|Memcpy|Memcpy2D|Memcpy3D|MemcpyDtoH|MemcpyHtoD|MemcpyDtoD)(_v2)?$'
            )
    else false
end;

-- Whether a waiting call waits for all work of the device, rather than for a stream or an event.
create or replace macro is_wait_for_device(name) as
regexp_matches(name, '(Device|Ctx|Context)Synchronize$|Free');

-- Whether a call makes a stream wait for an event.
create or replace macro is_stream_wait(name) as
contains(name, 'StreamWaitEvent');

-- Whether a call only records or queries an event, or makes a stream wait: the call itself does not wait.
create or replace macro is_event_call(name) as
regexp_matches(name, 'Event(Record|Query)|StreamWaitEvent');

-- Whether a call copies.
create or replace macro is_copy_call(name) as
contains(name, 'Memcpy');

-- Whether a copy on the GPU is from the CPU's memory to the GPU: `Memcpy HtoD (Pinned -> Device)`, `CopyHostToDevice`,
-- `MEMORY_COPY_HOST_TO_DEVICE` (`rocprofiler_memory_copy_operation_t` of the ROCprofiler SDK).
create or replace macro is_copy_to_device(name) as
regexp_matches(name, '(?i)HtoD|Host_?To_?Device|Host -> Device');

-- Whether a copy on the GPU is from GPU memory to GPU memory, so that no call waits for it.
create or replace macro is_copy_without_cpu(name) as
regexp_matches(name, '(?i)DtoD|PtoP|Device_?To_?Device|Device -> Device');

-- Whether a copy is limited by a link, to the CPU or to another GPU, rather than by the GPU's memory.
create or replace macro is_copy_over_link(name) as
regexp_matches(name, '(?i)HtoD|DtoH|PtoP|HtoH|Host');

-- Whether a copy is from or to memory of the CPU that is not pinned.
create or replace macro is_pageable_copy(name) as
contains(lower(name), 'pageable');
