-- What a device, or each of its streams, waits for when it has no work, and how often.
--
-- Each gap counts to its largest part: the host had not launched the next work (`host`), the host was in a synchronise
-- (`sync`), the work waited in its queue for communication or a kernel on another stream, the usual gap between two
-- kernels (`kernel`), none of these (`other`), nothing that the file shows (`unobserved`), or its launch is not in the
-- trace (`unknown`). The parts of all gaps are summed up, too: `host_ns`, `sync_ns`, `queued_ns`, `unobserved_ns` and
-- `unknown_ns` add up to `idle_ns`. A device idles when all its streams do; a stream may idle while others work.
--
-- :param by VARCHAR in (device, stream) = 'device'
--                                       gaps of a device (all streams at once), or of each stream alone
-- :param rank BIGINT = NULL             only this rank
-- :param device BIGINT = NULL           only this device
-- :param stream BIGINT = NULL           only gaps of this stream, whatever `by` says
-- :param step BIGINT = NULL             only gaps that end with work of this step
-- :param phase PHASE = NULL
--                                       only gaps that end with work of this phase
-- :param module VARCHAR = NULL          only gaps that end with work of this module or one in it, by path
-- :param micro_ns BIGINT >= 0 = 10000   gaps shorter than this are micro gaps
-- :reads idle_gap, label, model_op
-- :column rank BIGINT               process rank
-- :column device BIGINT             device number; -1 when the events name none
-- :column stream BIGINT             the stream; NULL for the device, or when the events name none
-- :column cause GAP_CAUSE           the largest part of the wait
-- :column gap_count BIGINT          gaps
-- :column idle_ns BIGINT            their time
-- :column idle_pct DOUBLE           share of the idle time of the device or stream
-- :column micro_count BIGINT        micro gaps
-- :column micro_total_ns BIGINT     time of the micro gaps
-- :column mean_ns DOUBLE            mean gap
-- :column median_ns BIGINT          median gap
-- :column max_ns BIGINT             longest gap
-- :column host_ns BIGINT            of the idle time, until the launch of the next work took effect
-- :column launch_ns BIGINT          of `host_ns`, from the launch call on
-- :column sync_ns BIGINT            of the idle time, because of a synchronise
-- :column queued_ns BIGINT          of it, launched work waited
-- :column unobserved_ns BIGINT      of it, launched work waited, and nothing in the file explains why
-- :column unknown_ns BIGINT         of it, before work without a known launch
-- :column example_event_id BIGINT   the GPU event that ends the longest gap; NULL for a gap after the last work
with gap as (
    select
        idle_gap.*,
        idle_gap.end_ns - idle_gap.start_ns as dur_ns
    from idle_gap
    left join label on idle_gap.rank = label.rank and idle_gap.next_id = label.event_id
    left join model_op on label.rank = model_op.rank and label.module_id = model_op.module_id
    where
        idle_gap.scope = case when $stream is null then $by else 'stream' end
        and is_asked($rank, idle_gap.rank)
        and is_asked($device, idle_gap.device)
        and is_asked($stream, idle_gap.stream)
        and is_asked($step, idle_gap.step)
        and is_asked($phase, idle_gap.phase)
        and in_module(model_op.path, $module)
)

select
    rank,
    device,
    stream,
    cause,
    count(*) as gap_count,
    sum(dur_ns)::bigint as idle_ns,
    100.0 * sum(dur_ns) / sum(sum(dur_ns)) over (partition by rank, device, stream) as idle_pct,
    count(*) filter (where dur_ns < $micro_ns) as micro_count,
    coalesce(sum(dur_ns) filter (where dur_ns < $micro_ns), 0)::bigint as micro_total_ns,
    avg(dur_ns) as mean_ns,
    quantile_disc(dur_ns, 0.5) as median_ns,
    max(dur_ns) as max_ns,
    sum(host_ns)::bigint as host_ns,
    sum(launch_ns)::bigint as launch_ns,
    sum(sync_ns)::bigint as sync_ns,
    sum(queued_ns)::bigint as queued_ns,
    sum(unobserved_ns)::bigint as unobserved_ns,
    sum(unknown_ns)::bigint as unknown_ns,
    arg_max({'event_id': next_id}, (dur_ns, -start_ns)).event_id as example_event_id
from gap
group by rank, device, stream, cause
order by rank, device, stream, idle_ns desc, cause
