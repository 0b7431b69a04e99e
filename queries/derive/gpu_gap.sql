-- Times when a device does nothing, and why: the parts of `idle_part`, summed up for each gap.
--
-- A gap belongs to the step and phase in which most of it passes.
--
-- :reads idle_part
with share as (
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

home as (
    select
        device,
        gap_ns,
        arg_max({'step': step, 'phase': phase}, (part_ns, -start_ns)) as label
    from share
    group by device, gap_ns
),

total as (
    select
        device,
        gap_ns as start_ns,
        max(end_ns) as end_ns,
        any_value(next_id) as next_id,
        sum(end_ns - start_ns) filter (where cause = 'load_data') as load_data_ns,
        sum(end_ns - start_ns) filter (where cause = 'sync') as sync_ns,
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
    home.label.step,
    home.label.phase,
    coalesce(total.load_data_ns, 0)::bigint as load_data_ns,
    coalesce(total.sync_ns, 0)::bigint as sync_ns,
    coalesce(total.cpu_tensor_ns, 0)::bigint as cpu_tensor_ns,
    coalesce(total.op_ns, 0)::bigint as op_ns,
    coalesce(total.python_ns, 0)::bigint as python_ns,
    coalesce(total.launch_ns, 0)::bigint as launch_ns,
    coalesce(total.queued_ns, 0)::bigint as queued_ns,
    coalesce(total.unobserved_ns, 0)::bigint as unobserved_ns,
    coalesce(total.unknown_ns, 0)::bigint as unknown_ns
from total
inner join home on total.device = home.device and total.start_ns = home.gap_ns
order by total.device, total.start_ns
