-- Every time without work, on each device (all streams) and on each stream alone, with what it waited for.
--
-- A gap ends when work starts, and is split by the launch of that work as `idle_part` says: the host had not launched
-- it, or the launch took effect (`host`); the host was inside a synchronise (`sync`); or the work waited in its queue.
-- The largest part is the cause. If the work waited for over 50 us and no device did anything in the last 50 us of it,
-- nothing in the file explains that (`unobserved`). Else it waited for what ended last on the device during the gap, on
-- another stream: communication or a kernel. If nothing did, a gap under 30 us is the usual time between two kernels
-- (`kernel`, HTA's threshold), and a longer one is `other`. Overlapping work leaves no gap, and there is none before
-- the first work of a stream.
--
-- :reads gpu_event, gpu_busy, event, name_info, launch, nesting, label, gpu_gap
-- :column rank BIGINT        process rank
-- :column scope VARCHAR      device: no stream of the device works; stream: this stream does not, others may
-- :column device BIGINT      device number; -1 when the events name none
-- :column stream BIGINT      the stream; NULL for scope device, or when the events name none
-- :column start_ns BIGINT    start
-- :column end_ns BIGINT      end
-- :column next_id BIGINT     the GPU event that ends the gap; NULL for the gap after the last one
-- :column step BIGINT        step of that event, or at the time of the last gap; NULL outside every step or when
--                            unlinked
-- :column phase VARCHAR      phase of that event; NULL outside every step or when unlinked
-- :column cause GAP_CAUSE    the largest part of the wait
-- :column host_ns BIGINT     of it, until the launch of that event took effect
-- :column launch_ns BIGINT   of `host_ns`, from the launch call on
-- :column sync_ns BIGINT     of the wait, the host was inside a call that returns when the GPU is done
-- :column queued_ns BIGINT   of it, the work was launched already and waited for something on the GPU
-- :column unobserved_ns BIGINT  of it, the work was launched already, and nothing in the file explains why it waited
-- :column unknown_ns BIGINT  of it, what ended the gap has no known launch
with work as (
    -- GPU events that take time.
    select * from gpu_event
    where dur_ns > 0
),

-- Until when the work of a stream had lasted at each of its events, that event included.
reached as (
    select
        *,
        max(end_ns) over (
            partition by rank, device, stream order by start_ns, event_id rows unbounded preceding
        ) as reached_ns
    from work
),

-- Work that ends a gap of its stream, and since when the stream had done nothing.
stream_gap as (
    select
        *,
        lag(reached_ns) over (partition by rank, device, stream order by start_ns, event_id) as since_ns
    from reached
    qualify start_ns > since_ns
),

-- Calls of a thread that return when the GPU is done, and how long those before each lasted.
blocking as (
    select
        nesting.rank,
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns,
        sum(nesting.end_ns - nesting.start_ns) over (
            partition by nesting.rank, nesting.track_id order by nesting.start_ns, nesting.event_id
            rows unbounded preceding
        ) - (nesting.end_ns - nesting.start_ns) as before_ns
    from nesting
    inner join event on nesting.rank = event.rank and nesting.event_id = event.event_id
    inner join name_info
        on (event.rank, event.category, event.name) = (name_info.rank, name_info.category, name_info.name)
    where
        event.category in ('cuda_runtime', 'cuda_driver')
        and name_info.is_blocking
        and nesting.end_ns > nesting.start_ns
),

-- Gaps of streams with the launch of the work that ends them.
launched as (
    select
        gap.rank,
        gap.device,
        gap.stream,
        gap.event_id as next_id,
        gap.since_ns as start_ns,
        gap.start_ns as end_ns,
        launch.link is null as is_unlinked,
        nesting.track_id,
        launched_in_gap(gap.since_ns, gap.start_ns, launch.launch_start_ns) as launched_ns,
        launch_due_in_gap(
            gap.since_ns, gap.start_ns, launched_ns, launch.launch_start_ns + launch.launch_dur_ns
        ) - launched_ns as launching_ns
    from stream_gap as gap
    inner join launch on gap.rank = launch.rank and gap.event_id = launch.event_id
    left join nesting
        on launch.rank = nesting.rank and coalesce(launch.runtime_id, launch.op_id) = nesting.event_id
),

-- How long the launching thread had been inside blocking calls when the gap began, and then when it launched.
at_start as (
    select
        launched.*,
        coalesce(blocking.before_ns + least(launched.start_ns, blocking.end_ns) - blocking.start_ns, 0) as sync_0
    from launched
    asof left join blocking
        on
            launched.rank = blocking.rank
            and launched.track_id = blocking.track_id
            and launched.start_ns >= blocking.start_ns
),

at_launch as (
    select
        at_start.*,
        -- the launch call itself blocks: as in idle_part, the time until it returns
        case
            when at_start.launched_ns < blocking.end_ns
                then least(at_start.launching_ns, blocking.end_ns - at_start.launched_ns)
            else 0
        end as in_call_ns,
        coalesce(blocking.before_ns + least(at_start.launched_ns, blocking.end_ns) - blocking.start_ns, 0)
        - at_start.sync_0 as blocked_ns
    from at_start
    asof left join blocking
        on
            at_start.rank = blocking.rank
            and at_start.track_id = blocking.track_id
            and at_start.launched_ns >= blocking.start_ns
),

-- How long any device is busy, of all that is so from some time on or before it.
busy_until as (
    select
        rank,
        start_ns,
        max(end_ns) over (partition by rank order by start_ns) as end_ns
    from gpu_busy
),

-- The parts of the gaps of streams and of devices.
split as (
    select
        'stream' as scope,
        at_launch.rank,
        at_launch.device,
        at_launch.stream,
        at_launch.start_ns,
        at_launch.end_ns,
        at_launch.next_id,
        label.step,
        label.phase,
        case
            when at_launch.is_unlinked then 0
            else
                at_launch.launched_ns - at_launch.start_ns - at_launch.blocked_ns
                + at_launch.launching_ns - at_launch.in_call_ns
        end as host_ns,
        case when at_launch.is_unlinked then 0 else at_launch.launching_ns - at_launch.in_call_ns end as launch_ns,
        case when at_launch.is_unlinked then 0 else at_launch.blocked_ns + at_launch.in_call_ns end as sync_ns,
        case
            when at_launch.is_unlinked then 0
            else at_launch.end_ns - at_launch.launched_ns - at_launch.launching_ns
        end as waited_ns,
        coalesce(
            waited_ns > launch_effect_ns() and busy_until.end_ns < at_launch.end_ns - launch_effect_ns(), false
        ) as is_unobserved,
        case when at_launch.is_unlinked then at_launch.end_ns - at_launch.start_ns else 0 end as unknown_ns
    from at_launch
    inner join label on at_launch.rank = label.rank and at_launch.next_id = label.event_id
    asof left join busy_until on at_launch.rank = busy_until.rank and at_launch.end_ns > busy_until.start_ns
    union all
    select
        'device',
        rank,
        device,
        null,
        start_ns,
        end_ns,
        next_id,
        step,
        phase,
        load_data_ns + profiler_ns + other_ranks_ns + other_thread_ns + cpu_tensor_ns + op_ns + python_ns + launch_ns,
        launch_ns,
        sync_ns,
        queued_ns + unobserved_ns,
        unobserved_ns > 0,
        unknown_ns
    from gpu_gap
),

-- What ended at each time on a device; communication where several did.
ending as (
    select
        rank,
        device,
        end_ns,
        arg_min(class, (class != 'communication', event_id)) as class
    from work
    group by rank, device, end_ns
)

select
    split.rank,
    split.scope,
    split.device,
    split.stream,
    split.start_ns,
    split.end_ns,
    split.next_id,
    split.step,
    split.phase,
    case
        when split.unknown_ns > 0 then 'unknown'
        when split.sync_ns >= greatest(split.host_ns, split.waited_ns) then 'sync'
        when split.host_ns >= split.waited_ns then 'host'
        when split.is_unobserved then 'unobserved'
        when ending.end_ns > split.start_ns and ending.class = 'communication' then 'communication'
        when ending.end_ns > split.start_ns or split.end_ns - split.start_ns < kernel_spacing_ns() then 'kernel'
        else 'other'
    end as cause,
    split.host_ns::bigint as host_ns,
    split.launch_ns::bigint as launch_ns,
    split.sync_ns::bigint as sync_ns,
    case when split.is_unobserved then 0 else split.waited_ns end::bigint as queued_ns,
    case when split.is_unobserved then split.waited_ns else 0 end::bigint as unobserved_ns,
    split.unknown_ns::bigint as unknown_ns
from split
asof left join ending
    on split.rank = ending.rank and split.device = ending.device and split.end_ns >= ending.end_ns
