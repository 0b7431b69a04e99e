-- Spellings of event categories by profiler version and vendor, in any case, and the one spelling used here.
-- From the activity names of Kineto (libkineto/src/ActivityType.cpp) and of its releases since 2020.
create or replace temp macro category_of(spelling) as case lower(spelling)
    when 'operator' then 'cpu_op'
    when 'hpu_op' then 'cpu_op'
    when 'memcpy' then 'gpu_memcpy'
    when 'memset' then 'gpu_memset'
    when 'concurrent_kernel' then 'kernel'
    when 'mtia_ccp_events' then 'kernel'
    when 'runtime' then 'cuda_runtime'
    when 'hip_runtime' then 'cuda_runtime'
    when 'hip_api' then 'cuda_runtime'
    when 'xpu_runtime' then 'cuda_runtime'
    when 'mtia_runtime' then 'cuda_runtime'
    when 'glow_runtime' then 'cuda_runtime'
    when 'privateuse1_runtime' then 'cuda_runtime'
    when 'driver' then 'cuda_driver'
    when 'hip_driver' then 'cuda_driver'
    when 'xpu_driver' then 'cuda_driver'
    when 'privateuse1_driver' then 'cuda_driver'
    when 'async_cpu_to_gpu' then 'ac2g'
    when 'forward_backward' then 'fwdbwd'
    when 'xpu_sync' then 'cuda_sync'
    when 'hip_sync' then 'cuda_sync'
    when 'python' then 'python_function'
    else lower(spelling)
end
