-- Spellings of event categories by profiler version and vendor, lower-cased, and the one spelling used here.
-- From the activity names of Kineto (libkineto/src/ActivityType.cpp) and of its releases since 2020.
select * from (
    values
    ('operator', 'cpu_op'),
    ('hpu_op', 'cpu_op'),
    ('memcpy', 'gpu_memcpy'),
    ('memset', 'gpu_memset'),
    ('concurrent_kernel', 'kernel'),
    ('mtia_ccp_events', 'kernel'),
    ('runtime', 'cuda_runtime'),
    ('hip_runtime', 'cuda_runtime'),
    ('hip_api', 'cuda_runtime'),
    ('xpu_runtime', 'cuda_runtime'),
    ('mtia_runtime', 'cuda_runtime'),
    ('glow_runtime', 'cuda_runtime'),
    ('privateuse1_runtime', 'cuda_runtime'),
    ('driver', 'cuda_driver'),
    ('hip_driver', 'cuda_driver'),
    ('xpu_driver', 'cuda_driver'),
    ('privateuse1_driver', 'cuda_driver'),
    ('async_cpu_to_gpu', 'ac2g'),
    ('forward_backward', 'fwdbwd'),
    ('xpu_sync', 'cuda_sync'),
    ('hip_sync', 'cuda_sync'),
    ('python', 'python_function')
) as spellings (spelling, category)
