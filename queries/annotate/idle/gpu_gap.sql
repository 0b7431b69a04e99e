-- Idle gaps of each device, with the sums of their parts in `idle_part`.
--
-- A gap belongs to the step and phase with most of its time.
--
-- :reads idle_part
-- :only_with idle_part
-- :column device DEVICE         -1 without a device
-- :column start_ns BIGINT       start
-- :column end_ns BIGINT         end
-- :column next_id BIGINT        the GPU event at the end of the gap; NULL for the gap after the last event
-- :column step STEP             with most of the gap's time; NULL outside every step or if unknown
-- :column phase PHASE           with most of the gap's time; NULL outside every step or if unknown
-- :column load_data_ns BIGINT   time in which the host loaded data
-- :column profiler_ns BIGINT    time in which the profiler itself worked in a call of the host
-- :column sync_ns BIGINT        time in which the host was inside a call that returns when the GPU is done
-- :column other_ranks_ns BIGINT  time in which the host waited for other ranks
-- :column other_thread_ns BIGINT of it, the host waited for another of its threads
-- :column cpu_tensor_ns BIGINT  time in which the host computed on CPU tensors
-- :column op_ns BIGINT          time in which the host was inside other ops and runtime calls, before the launch
-- :column python_ns BIGINT      time in which the host was outside ops: in python, or without recorded events
-- :column launch_ns BIGINT      time from the launch call to the start of the work
-- :column queued_ns BIGINT      time in which the work was already launched and waited for something on the GPU
-- :column unobserved_ns BIGINT  time in which the work was already launched and waited for unknown reasons
-- :column unknown_ns BIGINT     time of gaps before work without a known launch
with share as (
    -- Time of a gap in each step and phase.
    select
        device,
        gap_ns,
        step,
        phase,
        sum(end_ns - start_ns) as part_ns,
        min(start_ns) as start_ns
    from idle_part
    group by device, gap_ns, step, phase
),

-- The step and phase of each gap.
largest_share as (
    select
        device,
        gap_ns,
        arg_max({'step': step, 'phase': phase}, (part_ns, -start_ns)) as label
    from share
    group by device, gap_ns
),

-- Gaps with the time of each cause.
total as (
    select
        device,
        gap_ns as start_ns,
        max(end_ns) as end_ns,
        any_value(next_id) as next_id,
        sum(end_ns - start_ns) filter (where cause = 'load_data') as load_data_ns,
        sum(end_ns - start_ns) filter (where cause = 'profiler') as profiler_ns,
        sum(end_ns - start_ns) filter (where cause = 'sync') as sync_ns,
        sum(end_ns - start_ns) filter (where cause = 'other_ranks') as other_ranks_ns,
        sum(end_ns - start_ns) filter (where cause = 'other_thread') as other_thread_ns,
        sum(end_ns - start_ns) filter (where cause = 'cpu_tensor') as cpu_tensor_ns,
        sum(end_ns - start_ns) filter (where cause = 'op') as op_ns,
        sum(end_ns - start_ns) filter (where cause = 'python') as python_ns,
        sum(end_ns - start_ns) filter (where cause = 'launch') as launch_ns,
        sum(end_ns - start_ns) filter (where cause = 'queued') as queued_ns,
        sum(end_ns - start_ns) filter (where cause = 'unobserved') as unobserved_ns,
        sum(end_ns - start_ns) filter (where cause = 'unknown') as unknown_ns
    from idle_part
    group by device, gap_ns
)

select
    total.device,
    total.start_ns,
    total.end_ns,
    total.next_id,
    largest_share.label.step,
    largest_share.label.phase,
    coalesce(total.load_data_ns, 0)::bigint as load_data_ns,
    coalesce(total.profiler_ns, 0)::bigint as profiler_ns,
    coalesce(total.sync_ns, 0)::bigint as sync_ns,
    coalesce(total.other_ranks_ns, 0)::bigint as other_ranks_ns,
    coalesce(total.other_thread_ns, 0)::bigint as other_thread_ns,
    coalesce(total.cpu_tensor_ns, 0)::bigint as cpu_tensor_ns,
    coalesce(total.op_ns, 0)::bigint as op_ns,
    coalesce(total.python_ns, 0)::bigint as python_ns,
    coalesce(total.launch_ns, 0)::bigint as launch_ns,
    coalesce(total.queued_ns, 0)::bigint as queued_ns,
    coalesce(total.unobserved_ns, 0)::bigint as unobserved_ns,
    coalesce(total.unknown_ns, 0)::bigint as unknown_ns
from total
inner join largest_share on total.device = largest_share.device and total.start_ns = largest_share.gap_ns
order by total.device, total.start_ns
