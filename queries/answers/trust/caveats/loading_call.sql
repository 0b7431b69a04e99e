-- A row is a first call that takes long without waiting for the GPU: the call sets up the GPU or loads code.
--
-- :takes rank
-- :reads gpu_event, cpu_event, launch, gpu_wait
-- :column rank RANK
-- :column runtime_id BIGINT     the call
-- :column launch_dur_ns BIGINT  duration of the call

-- one row per kernel name: the first launch
with first_call as (
    select
        rank,
        runtime_id,
        launch_dur_ns
    from gpu_event
    where
        category = 'kernel'
        and launch_start_ns is not null
        and is_asked($rank, rank)
    qualify row_number() over (partition by rank, name order by launch_start_ns, event_id) = 1
),

-- one row per runtime function without GPU work: the first call
first_of_function as (
    select
        cpu_event.rank,
        cpu_event.event_id as runtime_id,
        cpu_event.end_ns - cpu_event.start_ns as launch_dur_ns
    from cpu_event
    anti join launch on cpu_event.rank = launch.rank and cpu_event.event_id = launch.runtime_id
    where cpu_event.category in ('cuda_runtime', 'cuda_driver') and is_asked($rank, cpu_event.rank)
    qualify
        row_number() over (
            partition by cpu_event.rank, cpu_event.name order by cpu_event.start_ns, cpu_event.event_id
        ) = 1
)

select distinct
    first.rank,
    first.runtime_id,
    first.launch_dur_ns
from (
    select * from first_call
    union all
    select * from first_of_function
) as first
anti join gpu_wait
    on first.rank = gpu_wait.rank and first.runtime_id = gpu_wait.event_id and gpu_wait.waited_ns > 0
where first.launch_dur_ns > first_call_ns()
