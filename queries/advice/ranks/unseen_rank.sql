-- Waits of this rank for a collective on another thread, in a run with only one rank's file. Sends and receives are
-- excluded (`pipeline_bubble`).
--
-- Condition: a training thread waits until a collective on another thread ends (`thread_wait`). The rule applies to a
-- run with one rank; `late_rank` compares several ranks. Bound: no wait, if all ranks arrive at the same time and the
-- transfer takes no time. Source: Li et al., "PyTorch distributed", VLDB 2020, section 5; derived for the wait.
--
-- :reads thread_wait, label_segment, event
-- :only_with thread_wait where kind = 'other_ranks'
-- :finding waits for other ranks, most of the time in {name}
-- :remedy Open the files of all ranks together (hotline report FOLDER): the report then names the rank that comes last,
--     and what it does before. From one file, waiting and transfer cannot be told apart.
select
    thread_wait.event_id,
    'host' as effect,
    thread_wait.track_id,
    thread_wait.start_ns,
    thread_wait.end_ns,
    thread_wait.end_ns - thread_wait.start_ns as saved_ns,
    split_part(event.name, ':', 2) as name
from thread_wait
asof inner join label_segment
    on
        thread_wait.rank = label_segment.rank
        and thread_wait.track_id = label_segment.track_id
        and thread_wait.start_ns >= label_segment.start_ns
inner join event on thread_wait.rank = event.rank and thread_wait.event_id = event.event_id
where
    thread_wait.rank = $rank
    and thread_wait.kind = 'other_ranks'
    and label_segment.step = $step
    -- `pipeline_bubble` covers sends and receives.
    and not is_send_receive_mark(event.name)
order by thread_wait.event_id, thread_wait.start_ns
