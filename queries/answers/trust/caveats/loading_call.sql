-- A row is a first call that takes long without waiting for the GPU: the call sets up the GPU or loads code.
--
-- :takes rank
-- :reads event, nesting, launch, gpu_wait
-- :column rank RANK
-- :column runtime_id BIGINT     the call
-- :column launch_dur_ns BIGINT  duration of the call

-- one row per kernel name: the first launch
with first_call as (
    select
        launch.rank,
        launch.runtime_id,
        launch.launch_dur_ns
    from launch
    inner join event on launch.rank = event.rank and launch.event_id = event.event_id
    where
        event.category = 'kernel'
        and launch.launch_start_ns is not null
        and is_asked($rank, launch.rank)
    qualify row_number() over (partition by launch.rank, event.name order by launch.launch_start_ns, event.event_id) = 1
),

-- one row per runtime function without GPU work: the first call
first_of_function as (
    select
        nesting.rank,
        nesting.event_id as runtime_id,
        nesting.end_ns - nesting.start_ns as launch_dur_ns
    from event
    inner join nesting on event.rank = nesting.rank and event.event_id = nesting.event_id
    anti join launch on event.rank = launch.rank and event.event_id = launch.runtime_id
    where event.category in ('cuda_runtime', 'cuda_driver') and is_asked($rank, event.rank)
    qualify row_number() over (partition by event.rank, event.name order by nesting.start_ns, event.event_id) = 1
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
