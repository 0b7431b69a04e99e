-- Steps with the profiler's own work, and the resulting extra length of the step.
--
-- The CPU does all later work later. The GPU does its work later only where it runs out of queued work: without the
-- profiler, its delay grows with its idle time, up to the delay of the CPU. A call that waits for the GPU then passes
-- the delay of the GPU on to the CPU, which is the shorter of the two. The extra length of a step is the delay at its
-- end less the delay at its begin. With several devices, the device with the smallest delay counts.
--
-- In symbols: between two waiting calls, own(t) is the profiler's work until t, and idle(t) is the GPU's idle time. The
-- delay of the GPU grows by idle(t) + min(own(s) - idle(s)) over the ends s of idle time until t.
--
-- :reads step_role, host_activity, idle_part, gpu_busy
-- :only_with host_activity where kind = 'profiler'
-- :column step STEP
-- :column profiler_ns BIGINT  extra length of the step caused by the profiler's own work
with own_work as (
    select
        start_ns,
        end_ns,
        sum(end_ns - start_ns) over (order by start_ns, end_ns rows unbounded preceding)
        - (end_ns - start_ns) as before_ns
    from host_activity
    where kind = 'profiler' and end_ns > start_ns
),

-- Idle time of each device, with the idle time before. Without GPU work, one device is idle all the time.
idle_time as (
    select
        device,
        start_ns,
        end_ns,
        sum(end_ns - start_ns) over (partition by device order by start_ns rows unbounded preceding)
        - (end_ns - start_ns) as before_ns
    from (
        select
            device,
            start_ns,
            end_ns
        from idle_part
        union all
        select
            -1,
            min(begin_ns),
            max(begin_ns + length_ns)
        from step_role
        having not exists (from gpu_busy)
    )
),

-- Times at which a delay is asked or changes. A waiting call closes a stretch (turn 1) and opens the next (turn 2).
moment as (
    select
        device,
        at_ns,
        turn
    from (select distinct device from idle_time) as device_of_work
    cross join (
        select
            unnest([begin_ns, begin_ns + length_ns]) as at_ns,
            0 as turn
        from step_role
        union
        select
            end_ns,
            unnest([1, 2])
        from host_activity
        where kind = 'sync' and end_ns > start_ns
    )
    union
    select
        device,
        end_ns,
        0
    from idle_time
),

-- Moments, with the profiler's work and the idle time until then, and the number of the stretch.
measured_moment as (
    select
        moment.device,
        moment.at_ns,
        moment.turn,
        sum((moment.turn = 2)::integer) over until_now as stretch,
        coalesce(own_work.before_ns + least(moment.at_ns, own_work.end_ns) - own_work.start_ns, 0) as own_ns,
        coalesce(idle_time.before_ns + least(moment.at_ns, idle_time.end_ns) - idle_time.start_ns, 0) as idle_ns
    from moment
    asof left join own_work on moment.at_ns >= own_work.start_ns
    asof left join idle_time on moment.device = idle_time.device and moment.at_ns >= idle_time.start_ns
    window until_now as (partition by moment.device order by moment.at_ns, moment.turn rows unbounded preceding)
),

-- Growth of the delay since the stretch began. At its begin, own and idle time of the stretch are zero.
growth as (
    select
        device,
        at_ns,
        turn,
        stretch,
        (idle_ns + least(
            min(own_ns - idle_ns) over until_now,
            case when stretch = 0 then 0 else first_value(own_ns - idle_ns) over until_now end
        ) - case when stretch = 0 then 0 else first_value(own_ns) over until_now end)::bigint as grown_ns
    from measured_moment
    window until_now as (partition by device, stretch order by at_ns, turn rows unbounded preceding)
),

earlier_growth as (
    select
        device,
        stretch + 1 as stretch,
        sum(max(grown_ns)) over (partition by device order by stretch rows unbounded preceding) as grown_ns
    from growth
    group by device, stretch
),

-- Delays of all work at the times asked for.
delay as (
    select
        growth.at_ns,
        min(growth.grown_ns + coalesce(earlier_growth.grown_ns, 0)) as delay_ns
    from growth
    left join earlier_growth on growth.device = earlier_growth.device and growth.stretch = earlier_growth.stretch
    where growth.turn = 0
    group by growth.at_ns
)

select
    step_role.step,
    least(step_role.length_ns, at_end.delay_ns - at_begin.delay_ns)::bigint as profiler_ns
from step_role
inner join delay as at_begin on step_role.begin_ns = at_begin.at_ns
inner join delay as at_end on step_role.begin_ns + step_role.length_ns = at_end.at_ns
where at_end.delay_ns > at_begin.delay_ns
order by step_role.step
