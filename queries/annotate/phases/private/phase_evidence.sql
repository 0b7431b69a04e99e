-- Which phase the trace shows on each thread, where it shows one: strong markers over weak
-- ones over autograd's stretches over asides.
--
-- Every layer's borders go into one list; at each border the last word of each layer counts, an empty word meaning
-- none. Steps put borders of their own, so that no stretch reaches across them. What an optimizer's marker holds is the
-- optimizer's but for the calls of its closure.
--
-- :reads marker_segment, backward_burst, closure_call, step, main_track
-- :column track_id BIGINT                                                   the thread
-- :column start_ns BIGINT                                                   start of the piece
-- :column end_ns BIGINT                                                     end of the piece
-- :column found STRUCT("label" VARCHAR, evidence VARCHAR, event_id BIGINT)  the phase that is shown, what shows it (as
--                                                                           in `marker`) and the event that does; NULL
--                                                                           where nothing shows one
with layer as (
    select
        case when family = 'strong' and label = 'optimizer' then label else family end as family,
        track_id,
        start_ns,
        end_ns,
        label,
        evidence,
        event_id
    from marker_segment
    where family in ('strong', 'weak', 'aside')
    union all
    select
        'closure',
        track_id,
        start_ns,
        end_ns,
        null,
        null,
        null
    from closure_call
    union all
    select
        'burst',
        track_id,
        start_ns,
        end_ns,
        'backward',
        'autograd',
        event_id
    from backward_burst
),

word as materialized (
    select
        *,
        row_number() over () as word_id
    from layer
),

border as (
    select
        track_id,
        start_ns as at_ns,
        1 as opens,
        family,
        word_id
    from word
    union all
    select
        track_id,
        end_ns,
        0,
        family,
        0
    from word
    union all
    select
        main_track.track_id,
        step.start_ns,
        2,
        null,
        null
    from step
    cross join main_track
),

-- The last word of a layer is that with the highest number, which starts with its place in the list.
numbered as (
    select
        track_id,
        at_ns,
        family,
        row_number() over (order by track_id, at_ns, opens) as position,
        (position << 32) + word_id as said
    from border
),

held as (
    select
        track_id,
        at_ns as start_ns,
        lead(at_ns) over in_order as end_ns,
        max(case when family = 'strong' then said end) over in_order as strong,
        max(case when family = 'optimizer' then said end) over in_order as optimizer,
        max(case when family = 'closure' then said end) over in_order as closure,
        max(case when family = 'weak' then said end) over in_order as weak,
        max(case when family = 'burst' then said end) over in_order as burst,
        max(case when family = 'aside' then said end) over in_order as aside
    from numbered
    window in_order as (partition by track_id order by position rows between unbounded preceding and current row)
),

found as (
    select
        track_id,
        start_ns,
        end_ns,
        coalesce(
            nullif(strong & 4294967295, 0),
            case when coalesce(closure & 4294967295, 0) = 0 then nullif(optimizer & 4294967295, 0) end,
            nullif(weak & 4294967295, 0),
            nullif(burst & 4294967295, 0),
            nullif(aside & 4294967295, 0)
        ) as word_id
    from held
    where end_ns > start_ns
)

select
    found.track_id,
    found.start_ns,
    found.end_ns,
    case
        when word.word_id is not null
            then {'label': word.label, 'evidence': word.evidence, 'event_id': word.event_id}
    end as found
from found
left join word on found.word_id = word.word_id
